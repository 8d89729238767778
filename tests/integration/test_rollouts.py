"""Rollouts on a real API server with real Deployment controllers."""

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from support.iris import IMPATIENT, alive, image_of, message, pod_of
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
    settle,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def broken() -> Iterator[ModelServer]:
    """A server whose model does not load."""
    with ModelServer() as made:
        made.ready, made.error = False, "file is corrupt"
        yield made


def iris(server: ModelServer, image: str, **spec: Any) -> dict[str, Any]:
    runtime = {"image": image, "ports": {"http": server.port}}
    return model("iris", runtime=runtime, health=IMPATIENT, **spec)


@pytest.fixture
def served(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> dict[str, Any]:
    """The pod of a model that is up to date."""
    api.apply(iris(server, "example/good:1"))
    pod = pod_of(kubelet, "example/good:1")
    kubelet.run(pod)
    settle(api, "iris")
    return pod


def restart_model(api: Api, moment: str = "2026-03-04T05:06:07Z") -> None:
    api.patch("InferenceModel", "iris", {"spec": {"rollout": {"restartedAt": moment}}})


def up_to_date(api: Api) -> tuple[str, str]:
    return api.condition("iris", "UpToDate")


def test_a_model_that_does_not_load_stays_rolled_back(
    served: dict[str, Any],
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    broken: ModelServer,
) -> None:
    api.apply(iris(broken, "example/bad:1"))
    kubelet.run(pod_of(kubelet, "example/bad:1"), ready=False)
    eventually("rolled back", lambda: up_to_date(api) == ("False", "RolledBack"))

    eventually(
        "the bad pod is gone", lambda: [image_of(p) for p in alive(kubelet)] == [image_of(served)]
    )
    assert api.condition("iris") == ("True", "ServingPreviousRevision")
    assert alive(kubelet)[0]["metadata"]["uid"] == served["metadata"]["uid"]
    rejected = api.get("InferenceModel", "iris")["status"]["revisions"]["rejected"]
    assert rejected["reason"] == "ModelLoadFailed"
    assert "file is corrupt" in rejected["message"]
    before = api.get("Deployment", "iris")["metadata"]["generation"]

    operator.stop()
    operator.start()
    operator.wait_ready()
    api.patch("InferenceModel", "iris", {"spec": {"replicas": 2}})
    eventually("a second pod", lambda: len(alive(kubelet)) == 2)

    assert {image_of(pod) for pod in alive(kubelet)} == {"example/good:1"}
    assert api.get("Deployment", "iris")["metadata"]["generation"] == before + 1
    assert up_to_date(api)[1] in {"", "RolledBack"}


def test_a_corrected_spec_ends_a_rollback(
    served: dict[str, Any],
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    broken: ModelServer,
) -> None:
    api.apply(iris(broken, "example/bad:1"))
    kubelet.run(pod_of(kubelet, "example/bad:1"), ready=False)
    eventually("rolled back", lambda: up_to_date(api) == ("False", "RolledBack"))

    api.apply(iris(server, "example/good:2"))
    kubelet.run(pod_of(kubelet, "example/good:2"))

    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))
    assert "rejected" not in api.get("InferenceModel", "iris")["status"]["revisions"]


def test_a_long_spec_can_be_rolled_back_to(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, broken: ModelServer
) -> None:
    numbers = " ".join(map(str, range(25_000)))
    template = {"metadata": {"annotations": {"example.com/numbers": numbers}}}
    api.apply(iris(server, "example/good:1", podTemplate=template))
    kubelet.run(pod_of(kubelet, "example/good:1"))
    settle(api, "iris")

    api.apply(iris(broken, "example/bad:1"))
    kubelet.run(pod_of(kubelet, "example/bad:1"), ready=False)

    eventually("rolled back", lambda: up_to_date(api) == ("False", "RolledBack"))
    eventually("one pod", lambda: [image_of(p) for p in alive(kubelet)] == ["example/good:1"])


def test_a_spec_that_is_too_large_to_keep_is_reported(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, broken: ModelServer
) -> None:
    noise = base64.b64encode(hashlib.shake_128(b"noise").digest(140 << 10)).decode()
    template = {"metadata": {"annotations": {"example.com/noise": noise}}}
    api.apply(iris(server, "example/good:1", podTemplate=template))
    kubelet.run(pod_of(kubelet, "example/good:1"))
    settle(api, "iris")
    assert "larger than 128 KiB even when compressed" in message(api, "Accepted")

    api.apply(iris(broken, "example/bad:1"))
    kubelet.run(pod_of(kubelet, "example/bad:1"), ready=False)

    eventually("paused", lambda: up_to_date(api) == ("False", "RolloutPaused"))
    assert "the last one that served, was not kept" in message(api, "UpToDate")
    assert api.condition("iris")[0] == "True"


def test_a_revision_with_a_deleted_replica_set_can_be_rolled_back_to(
    served: dict[str, Any],
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    broken: ModelServer,
) -> None:
    good = served["metadata"]["labels"]["moorage.dev/revision"]
    assert api.list("ControllerRevision") == []
    api.apply(iris(broken, "example/bad:1"))
    bad = pod_of(kubelet, "example/bad:1")
    (kept,) = api.list("ControllerRevision")
    assert kept["metadata"]["labels"]["moorage.dev/revision"] == good

    # a restarted operator has to read again what the revision was
    operator.stop()
    (replica_set,) = api.list("ReplicaSet", f"moorage.dev/revision={good}")
    api.delete("ReplicaSet", replica_set["metadata"]["name"])
    eventually("it is gone", lambda: not api.list("ReplicaSet", f"moorage.dev/revision={good}"))
    operator.start()
    operator.wait_ready()
    kubelet.run(bad, ready=False)

    eventually("rolled back", lambda: up_to_date(api) == ("False", "RolledBack"))
    again = pod_of(kubelet, "example/good:1")
    assert again["metadata"]["labels"]["moorage.dev/revision"] == good
    kubelet.run(again)
    eventually("it serves", lambda: api.condition("iris") == ("True", "ServingPreviousRevision"))
    eventually("no ControllerRevision", lambda: not api.list("ControllerRevision"))


def test_a_missing_image_is_rolled_back_after_the_deadline(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    api.apply(iris(server, "example/gone:1", rollout={"progressDeadlineSeconds": 2}))
    kubelet.wait(pod_of(kubelet, "example/gone:1"), "ImagePullBackOff", "no such image")

    eventually("rolled back", lambda: up_to_date(api) == ("False", "RolledBack"))

    revisions = api.get("InferenceModel", "iris")["status"]["revisions"]
    assert revisions["rejected"]["reason"] == "ImagePullBackOff"
    assert revisions["lastGood"] == served["metadata"]["labels"]["moorage.dev/revision"]


def test_a_paused_rollout_keeps_both_revisions_and_can_be_retried(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    late = {"progressDeadlineSeconds": 2, "onFailure": "Pause"}
    api.apply(iris(server, "example/late:1", rollout=late))
    pod = pod_of(kubelet, "example/late:1")
    kubelet.wait(pod, "ImagePullBackOff", "no such image")
    eventually("paused", lambda: up_to_date(api) == ("False", "RolloutPaused"))
    eventually("held", lambda: api.get("Deployment", "iris")["spec"].get("paused"))

    assert {image_of(each) for each in alive(kubelet)} == {"example/good:1", "example/late:1"}
    assert api.condition("iris") == ("True", "ServingPreviousRevision")

    restart_model(api)
    again = eventually(
        "a new pod",
        lambda: [
            each
            for each in alive(kubelet)
            if revision_of(each) not in {revision_of(served), revision_of(pod)}
        ],
    )
    kubelet.run(again[0])
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))
    assert "paused" not in api.get("Deployment", "iris")["spec"]


def test_an_operator_upgrade_restarts_no_pod_until_requested(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    with ModelServer("iris") as server:
        bundled = model(
            "iris",
            model={"uri": "configmap://files"},
            runtime={"ports": {"http": server.port}},
        )
        api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}})
        api.apply(bundled)
        kubelet.run(pod_of(kubelet, "runtime:test"))
        settle(api, "iris")
        (pod,) = alive(kubelet)

        operator.stop()
        options, operator.options = operator.options, ("--runtime-image", "runtime:newer")
        try:
            operator.start()
            operator.wait_ready()
            pending = ("False", "OperatorUpdatePending")
            eventually("the update is pending", lambda: up_to_date(api) == pending)
            assert api.condition("iris") == ("True", "Serving")

            api.patch("InferenceModel", "iris", {"spec": {"replicas": 2}})
            pods = eventually("scaled", lambda: len(found := alive(kubelet)) == 2 and found)
            assert {image_of(each) for each in pods} == {"runtime:test"}
            assert pod["metadata"]["uid"] in {each["metadata"]["uid"] for each in pods}

            restart_model(api)
            assert image_of(pod_of(kubelet, "runtime:newer"))
        finally:
            operator.stop()
            operator.options = options
            operator.start()


RESTARTED = "kubectl.kubernetes.io/restartedAt"


def restart(api: Api, moment: str) -> None:
    """Restart the pods like `kubectl rollout restart`."""
    metadata = {"metadata": {"annotations": {RESTARTED: moment}}}
    api.patch("Deployment", "iris", {"spec": {"template": metadata}}, "strategic-merge")


def test_an_operator_upgrade_keeps_restarts_by_users(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    with ModelServer("iris") as server:
        ports = {"http": server.port}
        api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}})
        api.apply(model("iris", model={"uri": "configmap://files"}, runtime={"ports": ports}))
        kubelet.run(pod_of(kubelet, "runtime:test"))
        settle(api, "iris")

        def restarted(moment: str) -> None:
            before = {pod["metadata"]["uid"] for pod in alive(kubelet)}
            restart(api, moment)

            def newer() -> list[dict[str, Any]]:
                return [pod for pod in alive(kubelet) if pod["metadata"]["uid"] not in before]

            kubelet.run(eventually("a new pod", newer)[0])
            eventually("the earlier pod is gone", lambda: len(alive(kubelet)) == 1)

        restarted("2026-01-01T00:00:00Z")
        # What is left to read the revision from is the ReplicaSet of the restart.
        (pod,) = alive(kubelet)
        for each in api.list("ReplicaSet"):
            if each["metadata"]["name"] != pod["metadata"]["ownerReferences"][0]["name"]:
                api.delete("ReplicaSet", each["metadata"]["name"])
        eventually("one ReplicaSet", lambda: len(api.list("ReplicaSet")) == 1)

        operator.stop()
        options, operator.options = operator.options, ("--runtime-image", "runtime:newer")
        try:
            # A restart while no operator runs must not be undone either.
            restarted("2026-01-02T00:00:00Z")
            (pod,) = alive(kubelet)
            operator.start()
            operator.wait_ready()
            pending = ("False", "OperatorUpdatePending")
            eventually("the update is pending", lambda: up_to_date(api) == pending)
            assert [each["metadata"]["uid"] for each in alive(kubelet)] == [pod["metadata"]["uid"]]

            restarted("2026-01-03T00:00:00Z")
            template = api.get("Deployment", "iris")["spec"]["template"]
            assert template["metadata"]["annotations"][RESTARTED] == "2026-01-03T00:00:00Z"
            assert {image_of(each) for each in alive(kubelet)} == {"runtime:test"}
        finally:
            operator.stop()
            operator.options = options
            operator.start()


def test_a_paused_deployment_is_reported_until_it_is_resumed(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    def pause(*, paused: bool | None) -> None:
        body = {"spec": {"paused": paused}}
        patch = api.of("Deployment").patch
        how = {"content_type": "application/merge-patch+json", "field_manager": "kubectl-rollout"}
        patch(name="iris", namespace=api.namespace, body=body, **how)

    pause(paused=True)
    api.apply(iris(server, "example/good:2"))
    eventually("named", lambda: up_to_date(api) == ("False", "RolloutPaused"))
    assert "kubectl-rollout" in message(api, "UpToDate")
    assert "kubectl rollout resume deployment/iris" in message(api, "Stalled")
    assert api.condition("iris") == ("True", "ServingPreviousRevision")

    pause(paused=None)
    kubelet.run(pod_of(kubelet, "example/good:2"))
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))


def test_a_foreign_node_selector_is_reported_while_it_blocks_pods(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    selector = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}}
    api.patch("Deployment", "iris", selector)
    api.apply(iris(server, "example/good:2"))
    pod_of(kubelet, "example/good:2")

    field = "spec.template.spec.nodeSelector by"
    eventually("named", lambda: field in message(api, "UpToDate"))
    assert field in message(api, "WorkloadAvailable")


BLUE_GREEN = {"strategy": "BlueGreen", "blueGreen": {"keepSeconds": 10}}


def selected(api: Api) -> str:
    """The revision that the Service selects, "" if it selects all."""
    return api.get("Service", "iris")["spec"]["selector"].get("moorage.dev/revision", "")


def revision_of(pod: dict[str, Any]) -> str:
    return pod["metadata"]["labels"]["moorage.dev/revision"]


def test_blue_green_switches_when_all_serve_and_keeps_the_earlier_for_a_while(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    api.apply(iris(server, "example/good:1", rollout=BLUE_GREEN))
    eventually("selects", lambda: selected(api) == revision_of(served))

    api.apply(iris(server, "example/good:2", rollout=BLUE_GREEN, replicas=2))
    eventually(
        "two pods each",
        lambda: (
            sorted(image_of(pod) for pod in alive(kubelet))
            == ["example/good:1"] * 2 + ["example/good:2"] * 2
        ),
    )
    # The new ones last: with the second of them the Service may be switched at any moment.
    for pod in sorted(alive(kubelet), key=image_of):
        assert selected(api) == revision_of(served)
        kubelet.run(pod)
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))

    new = [pod for pod in alive(kubelet) if image_of(pod) == "example/good:2"]
    assert selected(api) == revision_of(new[0])
    assert len(alive(kubelet)) == 4
    retiring = api.get("InferenceModel", "iris")["status"]["revisions"]["retiring"]
    assert retiring["revision"] == revision_of(served)
    eventually("the earlier are gone", lambda: len(alive(kubelet)) == 2)
    (deployment,) = api.list("Deployment", "moorage.dev/model=iris")
    assert deployment["metadata"]["name"] == f"iris-{revision_of(new[0])}"


def test_blue_green_never_switches_to_a_failing_revision(
    served: dict[str, Any],
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    broken: ModelServer,
) -> None:
    api.apply(iris(broken, "example/bad:1", rollout=BLUE_GREEN))
    kubelet.run(pod_of(kubelet, "example/bad:1"), ready=False)
    eventually("rolled back", lambda: up_to_date(api) == ("False", "RolledBack"))

    eventually("alone", lambda: [image_of(pod) for pod in alive(kubelet)] == ["example/good:1"])
    assert alive(kubelet)[0]["metadata"]["uid"] == served["metadata"]["uid"]
    assert selected(api) == revision_of(served)
    assert api.get("Service", "iris")["spec"]["ports"][0]["port"] == server.port
    assert api.condition("iris") == ("True", "ServingPreviousRevision")


def test_a_rolling_update_continues_after_blue_green(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    api.apply(iris(server, "example/good:2", rollout=BLUE_GREEN))
    kubelet.run(pod_of(kubelet, "example/good:2"))
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))

    api.apply(iris(server, "example/good:2"))
    eventually("selects all", lambda: selected(api) == "")
    assert pod_of(kubelet, "example/good:2")
    api.apply(iris(server, "example/good:3"))
    pod = pod_of(kubelet, "example/good:3")
    assert pod_of(kubelet, "example/good:2")
    kubelet.run(pod)

    eventually("one pod", lambda: [image_of(each) for each in alive(kubelet)] == [image_of(pod)])
    (deployment,) = api.list("Deployment", "moorage.dev/model=iris")
    assert deployment["metadata"]["name"] == "iris"
