"""The operator on a real API server: a model is created, edited, repaired and deleted."""

import time

import pytest

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


def serve(api: Api, kubelet: Kubelet, server: ModelServer, **spec) -> dict:
    """A model `iris` whose pods run at the address of the server, up to Ready."""
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", runtime=runtime, **spec))
    wanted = spec.get("replicas", 1)
    pods = eventually("pods", lambda: len(found := kubelet.pods("iris")) == wanted and found)
    for pod in pods:
        kubelet.run(pod)
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))
    return api.get("InferenceModel", "iris")


def test_a_model_gets_a_deployment_and_a_service_that_it_owns(
    operator: OperatorProcess, api: Api
) -> None:
    uid = api.apply(model("iris"))["metadata"]["uid"]

    for kind in ("Deployment", "Service"):
        child = eventually(kind, lambda kind=kind: api.get(kind, "iris"))
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("InferenceModel", uid, True)
        assert "blockOwnerDeletion" not in owner


def test_ready_follows_the_model_and_the_status_has_its_metadata(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    status = serve(api, kubelet, server)["status"]

    assert status["replicaSummary"] == "1/1"
    assert status["server"]["name"] == "fake"
    (tensor,) = status["model"]["inputs"]
    assert tensor == {"name": "x", "datatype": "FP32", "shape": [-1, 4]}


def test_ready_comes_within_half_a_second_of_the_model(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    server.ready = False
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", runtime=runtime))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod, ready=True)
    eventually("it is asked", lambda: api.condition("iris", "ModelReady")[0] == "False")

    server.ready = True
    began = time.monotonic()
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))

    assert time.monotonic() - began < 0.5 + 1.0  # a generous second for a busy machine


def test_a_status_is_atomic_for_the_api_server(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    metadata = serve(api, kubelet, server)["metadata"]

    (entry,) = [e for e in metadata["managedFields"] if e.get("subresource") == "status"]
    assert entry["fieldsV1"] == {"f:status": {}}


def test_the_operator_writes_only_the_status_of_a_model(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    metadata = serve(api, kubelet, server)["metadata"]

    assert not metadata.get("annotations")
    assert not metadata.get("finalizers")
    assert not metadata.get("labels")


def test_nothing_is_written_while_nothing_changes(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    health = {"pollIntervalSeconds": 1}
    serve(api, kubelet, server, health=health)
    names = [("InferenceModel", "iris"), ("Deployment", "iris"), ("Service", "iris")]
    asked = server.requests.count("/v2/models/iris/ready")
    settle(api, "iris")
    before = [api.get(*each)["metadata"]["resourceVersion"] for each in names]
    writes = operator.metric("moorage_api_requests_total", 'verb="patch"')

    polls = "/v2/models/iris/ready"
    eventually("four polls", lambda: server.requests.count(polls) >= asked + 4)

    assert before == [api.get(*each)["metadata"]["resourceVersion"] for each in names]
    assert writes == operator.metric("moorage_api_requests_total", 'verb="patch"')


def test_ready_follows_a_model_that_fails_and_recovers(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    serve(api, kubelet, server, health={"pollIntervalSeconds": 1})

    server.ready, server.error = False, "file is corrupt"
    eventually("fails", lambda: api.condition("iris") == ("False", "ModelLoadFailed"))
    (condition,) = [
        each
        for each in api.get("InferenceModel", "iris")["status"]["conditions"]
        if each["type"] == "Ready"
    ]
    assert "file is corrupt" in condition["message"]

    server.ready, server.error = True, ""
    eventually("Ready again", lambda: api.condition("iris") == ("True", "Serving"))


def test_scaling_creates_pods_and_counts_them(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    serve(api, kubelet, server)

    api.patch("InferenceModel", "iris", {"spec": {"replicas": 2}})
    pods = eventually("2 pods", lambda: len(p := kubelet.pods("iris")) == 2 and p)
    eventually(
        "1/2",
        lambda: api.get("InferenceModel", "iris")["status"]["replicaSummary"] == "1/2",
    )
    for pod in pods:
        kubelet.run(pod)

    eventually(
        "2/2",
        lambda: api.get("InferenceModel", "iris")["status"]["replicaSummary"] == "2/2",
    )


def test_an_edited_spec_reaches_the_deployment(operator: OperatorProcess, api: Api) -> None:
    api.apply(model("iris", runtime={"image": "example/server:1"}))
    eventually("a Deployment", lambda: api.get("Deployment", "iris"))

    api.apply(model("iris", runtime={"image": "example/server:2"}))

    def image() -> str:
        template = api.get("Deployment", "iris")["spec"]["template"]
        return template["spec"]["containers"][0]["image"]

    eventually("the new image", lambda: image() == "example/server:2")


@pytest.mark.parametrize(
    ("kind", "patch", "read"),
    [
        (
            "Deployment",
            {"spec": {"replicas": 5}},
            lambda child: child["spec"]["replicas"] == 1,
        ),
        (
            "Deployment",
            {"metadata": {"labels": {"app.kubernetes.io/name": "other"}}},
            lambda child: child["metadata"]["labels"]["app.kubernetes.io/name"] == "iris",
        ),
        (
            "Deployment",
            {"metadata": {"ownerReferences": None}},
            lambda child: child["metadata"].get("ownerReferences"),
        ),
        (
            "Service",
            {"spec": {"selector": {"moorage.dev/model": "other"}}},
            lambda child: child["spec"]["selector"]["moorage.dev/model"] == "iris",
        ),
        (
            "Service",
            {"metadata": {"annotations": {"moorage.dev/applied-hash": None}}},
            lambda child: "moorage.dev/applied-hash" in child["metadata"].get("annotations", {}),
        ),
    ],
    ids=["replicas", "label", "owner", "selector", "hash"],
)
def test_a_manually_edited_child_is_repaired(
    operator: OperatorProcess, api: Api, kind: str, patch: dict, read
) -> None:
    api.apply(model("iris"))
    eventually(kind, lambda: api.get(kind, "iris"))

    api.patch(kind, "iris", patch)

    eventually("the change is reverted", lambda: read(api.get(kind, "iris")))


def test_fields_added_by_others_are_kept(operator: OperatorProcess, api: Api) -> None:
    api.apply(model("iris"))
    eventually(
        "both children", lambda: api.get("Service", "iris") and api.get("Deployment", "iris")
    )
    api.patch("Service", "iris", {"metadata": {"annotations": {"example.com/note": "mine"}}})

    api.patch("InferenceModel", "iris", {"spec": {"replicas": 2}})
    eventually("scaled", lambda: api.get("Deployment", "iris")["spec"]["replicas"] == 2)

    annotations = api.get("Service", "iris")["metadata"]["annotations"]
    assert annotations["example.com/note"] == "mine"


@pytest.mark.parametrize("kind", ["Deployment", "Service"])
def test_a_deleted_child_is_recreated(operator: OperatorProcess, api: Api, kind: str) -> None:
    api.apply(model("iris"))
    uid = eventually(kind, lambda: api.get(kind, "iris"))["metadata"]["uid"]

    api.delete(kind, "iris")

    eventually(
        "another", lambda: api.get(kind, "iris").get("metadata", {}).get("uid") not in (None, uid)
    )


def test_a_deleted_model_can_be_created_again(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    api.apply(model("iris"))
    eventually("a pod", lambda: kubelet.pods("iris"))

    api.delete("InferenceModel", "iris")
    for kind in ("Deployment", "Service"):
        eventually(f"no {kind}", lambda kind=kind: not api.get(kind, "iris"))
    uid = api.apply(model("iris"))["metadata"]["uid"]

    child = eventually("a Deployment", lambda: api.get("Deployment", "iris"))
    assert child["metadata"]["ownerReferences"][0]["uid"] == uid


def test_a_model_recreated_at_once_gets_its_own_children(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris"))
    eventually("a Deployment", lambda: api.get("Deployment", "iris"))

    api.delete("InferenceModel", "iris")
    uid = api.apply(model("iris"))["metadata"]["uid"]

    def owners() -> list[str]:
        found = api.get("Deployment", "iris").get("metadata", {})
        return [owner["uid"] for owner in found.get("ownerReferences", [])]

    eventually("the new owner", lambda: owners() == [uid], seconds=40)
