"""Causes that the operator must report, and interruptions that it must survive."""

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage_operator.kube import kinds
from support.chart_rights import operators_kubeconfig
from support.iris import message
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    control_plane,
    eventually,
    install_crd,
    kill_api_server,
    model,
    settle,
)

pytestmark = pytest.mark.integration

CRD = "inferencemodels.moorage.dev"


def test_a_missing_config_map_is_reported_until_it_exists(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris", model={"uri": "configmap://iris-files"}))
    eventually("named", lambda: api.condition("iris") == ("False", "VolumeMountFailed"))
    assert '"iris-files"' in message(api)

    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "iris-files"}}
    api.apply(body | {"data": {"model.onnx": "x"}})

    eventually("forgotten", lambda: api.condition("iris") == ("False", "Pending"))


def test_an_image_that_cannot_be_pulled_is_reported(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    api.apply(model("iris"))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))

    kubelet.wait(pod, "ImagePullBackOff", "pull access denied for example/server")

    eventually("named", lambda: api.condition("iris") == ("False", "ImagePullBackOff"))
    assert "pull access denied" in message(api)


def test_a_missing_model_is_reported_with_the_servers_message(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    server.name = "another"
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", runtime=runtime))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)

    eventually("named", lambda: api.condition("iris") == ("False", "ModelNotFound"))
    assert "the server has iris" in message(api)

    api.patch("InferenceModel", "iris", {"spec": {"model": {"name": "another"}}})
    for new in eventually("the new pod", lambda: _newer(kubelet, pod)):
        kubelet.run(new)
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))


def _newer(kubelet: Kubelet, old: dict) -> list[dict]:
    uid = old["metadata"]["uid"]
    return [each for each in kubelet.pods("iris") if each["metadata"]["uid"] != uid]


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"containers": [{"name": "runtime", "imagePullPolicy": "Sometimes"}]}, "Sometimes"),
        ({"tolerate": []}, ".spec.template.spec.tolerate"),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "512MB"}}]}, "quantities must"),
    ],
)
def test_a_refused_pod_template_is_reported_until_it_is_corrected(
    operator: OperatorProcess, api: Api, spec: dict[str, object], named: str
) -> None:
    bad = {"spec": spec}
    api.apply(model("iris", runtime={"image": "example/server:1"}, podTemplate=bad))
    eventually("named", lambda: api.condition("iris") == ("False", "InvalidPodTemplate"))
    assert named in message(api)
    assert api.condition("iris", "Stalled") == ("True", "InvalidPodTemplate")

    api.patch("InferenceModel", "iris", {"spec": {"podTemplate": None}})

    eventually("applied", lambda: api.get("Deployment", "iris"))
    eventually("forgotten", lambda: api.condition("iris", "Accepted")[0] == "True")


def test_an_object_with_another_owner_is_not_taken_over(
    operator: OperatorProcess, api: Api
) -> None:
    labels = {"app": "other"}
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "iris"},
        "spec": {"selector": labels, "ports": [{"port": 80}]},
    }
    api.apply(body)

    api.apply(model("iris"))

    eventually("named", lambda: api.condition("iris") == ("False", "NameConflict"))
    service = api.get("Service", "iris")
    assert service["spec"]["selector"] == labels
    assert "ownerReferences" not in service["metadata"]

    api.delete("Service", "iris")
    eventually(
        "ours",
        lambda: api.get("Service", "iris").get("metadata", {}).get("ownerReferences"),
        seconds=40,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"])
def test_the_operator_can_restart_at_any_time(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    number: signal.Signals,
) -> None:
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", runtime=runtime))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))

    operator.stop(number)
    # What happens while it is away: an edit by hand, and a model.
    api.patch("Deployment", "iris", {"spec": {"replicas": 3}})
    api.apply(model("late"))
    operator.start()
    operator.wait_ready()

    eventually(
        "the replicas are restored", lambda: api.get("Deployment", "iris")["spec"]["replicas"] == 1
    )
    eventually("the late Deployment", lambda: api.get("Deployment", "late"))
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))
    eventually("asked again", lambda: server.requests.count("/v2/models/iris/ready") > 1)


def test_a_restart_without_changes_writes_nothing(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", runtime=runtime))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)
    settle(api, "iris")
    names = [("InferenceModel", "iris"), ("Deployment", "iris"), ("Service", "iris")]
    before = [api.get(*each)["metadata"]["resourceVersion"] for each in names]

    operator.stop()
    asked = server.requests.count("/v2/models/iris/ready")
    operator.start()
    operator.wait_ready()
    eventually("asked", lambda: server.requests.count("/v2/models/iris/ready") > asked)
    eventually("an answer", lambda: operator.metric("moorage_polls_total") > 0)

    assert operator.metric("moorage_child_writes_total") == 0
    assert before == [api.get(*each)["metadata"]["resourceVersion"] for each in names]


def test_sigterm_ends_the_operator_cleanly_and_quickly(
    operator: OperatorProcess, api: Api
) -> None:
    began = time.monotonic()
    status = operator.stop()
    spent = time.monotonic() - began
    operator.start()

    assert status == 0
    assert spent < 5


def test_the_operator_survives_a_restart_of_the_api_server(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris"))
    eventually("a Deployment", lambda: api.get("Deployment", "iris"))

    kill_api_server(api.kubeconfig.parent)
    eventually(
        "the watch is restarted", lambda: operator.metric("moorage_watch_restarts_total") >= 1
    )
    control_plane("up", api.kubeconfig.parent)

    api.apply(model("after"))
    eventually("watches models", lambda: api.get("Deployment", "after"), seconds=60)
    api.delete("Deployment", "after")
    eventually("watches children", lambda: api.get("Deployment", "after"), seconds=60)


@pytest.fixture
def reinstalled(api: Api) -> Iterator[None]:
    """The CRD is installed at the end, whatever the test has left of it."""
    yield

    def is_going() -> bool:
        found = api.get("CustomResourceDefinition", CRD)
        return bool(found) and "deletionTimestamp" in found["metadata"]

    eventually("the CRD is there or gone", lambda: not is_going())
    if not api.get("CustomResourceDefinition", CRD):
        install_crd(api.kubeconfig)


def wait_garbage_collector(api: Api) -> None:
    """Wait until the garbage collector has seen all models, after its watch was interrupted.

    It never deletes the children of a model that it has not seen before the kind was removed.
    Only a collector that sees a model completes its deletion in the foreground.
    """
    api.apply(model("seen"))
    api.of("InferenceModel").delete(
        name="seen", namespace=api.namespace, propagation_policy="Foreground"
    )
    eventually("the model is seen", lambda: not api.get("InferenceModel", "seen"), seconds=90)


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("reinstalled")
def test_the_operator_survives_a_reinstalled_crd(operator: OperatorProcess, api: Api) -> None:
    api.apply(model("iris"))
    eventually("a Deployment", lambda: api.get("Deployment", "iris"))
    wait_garbage_collector(api)

    api.delete("CustomResourceDefinition", CRD)
    eventually(
        "/readyz reports the missing CRD", lambda: "is not installed" in operator.ask("/readyz")[1]
    )
    assert operator.ask("/livez") == (200, "ok")
    # the garbage collector looks for kinds that came or went every half minute, and waits for it
    eventually("no Deployment", lambda: not api.get("Deployment", "iris"), seconds=90)
    eventually("no CRD", lambda: not api.get("CustomResourceDefinition", CRD))
    install_crd(api.kubeconfig)

    again = Api(api.kubeconfig, api.namespace)
    again.apply(model("after"))
    eventually("watches models", lambda: again.get("Deployment", "after"), seconds=40)


@pytest.fixture
def mine(api: Api, operator: OperatorProcess) -> Iterator[Api]:
    """A namespace with its own installation, while the operator of the others is stopped."""
    made = Api(api.kubeconfig, f"{api.namespace}-mine")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}}
    made.of("Namespace").create(body=namespace)
    with operator.held():
        yield made
    made.delete("InferenceModel", "iris")


IN_ONE = "moorage-in-one"
"""A release of the chart with rights in only one namespace."""


def of_one_namespace(mine: Api, folder: Path) -> OperatorProcess:
    """The operator of that release; not started."""
    rights = operators_kubeconfig(mine.kubeconfig, folder, [mine.namespace], release=IN_ONE)
    return OperatorProcess(rights, folder / "log", ("--namespaces", mine.namespace))


def test_only_the_listed_namespaces_are_served(api: Api, mine: Api, tmp_path: Path) -> None:
    operator = of_one_namespace(mine, tmp_path)
    operator.start()
    try:
        operator.wait_ready()
        api.apply(model("iris"))
        mine.apply(model("iris"))
        eventually("served", lambda: mine.get("Deployment", "iris"))
        eventually("reported", lambda: mine.condition("iris")[1])

        # The model of the other namespace was made first, so it would be seen by now.
        assert eventually("seen", lambda: operator.metric("moorage_models")) == 1
    finally:
        operator.stop()


def test_models_are_not_reconciled_before_pods_are_known(mine: Api, tmp_path: Path) -> None:
    operator = of_one_namespace(mine, tmp_path)
    role = f"{IN_ONE}-operator"
    rules = mine.get("Role", role)["rules"]
    without_pods = [rule for rule in rules if rule["resources"] != ["pods"]]
    mine.patch("Role", role, {"rules": without_pods})
    mine.apply(model("iris"))
    refusals = ("moorage_api_requests_total", 'resource="pods"', 'verb="list"', 'code="403"')
    operator.start()
    try:
        eventually("the model is known", lambda: operator.metric("moorage_models") == 1)
        refused = operator.metric(*refusals)
        eventually("the pods are listed again", lambda: operator.metric(*refusals) > refused)
        assert "initial lists of pods" in operator.ask("/readyz")[1]
        assert not mine.get("Deployment", "iris")

        mine.patch("Role", role, {"rules": rules})
        eventually("served", lambda: mine.get("Deployment", "iris"))
        operator.wait_ready()
    finally:
        operator.stop()


def test_the_actual_api_calls_match_the_granted_rights(
    operator: OperatorProcess, api: Api
) -> None:
    known = (*kinds.ALL, kinds.NODES, *kinds.OF_CLUSTER)
    granted = {(verb, kind.rbac_name) for kind in known for verb in kind.verbs}
    text = operator.ask("/metrics")[1]
    pattern = r'moorage_api_requests_total\{code="(\d+)",resource="([^"]+)",verb="([^"]+)"\}'
    rights = {"dry-run": "create"}
    made = {(rights.get(verb, verb), noun) for _, noun, verb in re.findall(pattern, text)}

    assert made
    assert {call for call in made if call[0] != "discover"} <= granted
