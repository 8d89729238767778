"""Manual edits of children on a real API server: the operator restores exactly its own fields."""

from pathlib import Path
from typing import Any

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

CONTESTED = "another program has changed or deleted {} 'iris' 10 times within 3 minutes"
PORTS = "/spec/template/spec/containers/0/ports"


def iris(server: ModelServer, image: str = "example/server:1", **spec: Any) -> dict[str, Any]:
    return model("iris", runtime={"image": image, "ports": {"http": server.port}}, **spec)


@pytest.fixture
def served(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> dict[str, Any]:
    """The pod of a model that is up to date."""
    api.apply(iris(server))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)
    settle(api, "iris")
    return pod


def edit(api: Api, kind: str, path: str, value: Any) -> None:
    """Replace a value as `kubectl edit` does."""
    api.patch(kind, "iris", [{"op": "replace", "path": path, "value": value}], "json")


def accepted(api: Api) -> dict[str, Any]:
    conditions = api.get("InferenceModel", "iris")["status"].get("conditions", [])
    (found,) = [each for each in conditions if each["type"] == "Accepted"]
    return dict(found)


def newer(kubelet: Kubelet, old: dict[str, Any]) -> list[dict[str, Any]]:
    uid = old["metadata"]["uid"]
    return [pod for pod in kubelet.pods("iris") if pod["metadata"]["uid"] != uid]


def service_ports(api: Api) -> dict[str, int]:
    return {each["name"]: each["port"] for each in api.get("Service", "iris")["spec"]["ports"]}


def containers(api: Api) -> list[dict[str, Any]]:
    return api.get("Deployment", "iris")["spec"]["template"]["spec"]["containers"]


def container_ports(found: list[dict[str, Any]]) -> list[int]:
    return [each["containerPort"] for each in found[0]["ports"]]


def managers(api: Api, kind: str) -> list[tuple[str, str]]:
    """Managers and operations, without those of the status."""
    return [
        (each["manager"], each["operation"])
        for each in api.get(kind, "iris")["metadata"]["managedFields"]
        if not each.get("subresource")
    ]


def test_an_edited_service_port_is_restored_and_the_address_is_kept(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    before = api.get("Service", "iris")["spec"]

    edit(api, "Service", "/spec/ports/0/port", 7777)

    eventually("repaired", lambda: api.get("Service", "iris")["spec"] == before)
    assert ("moorage", "Update") not in managers(api, "Service")
    # A later edit of the spec moves the port and leaves nothing behind.
    body = iris(server)
    body["spec"]["runtime"]["ports"] = {"http": server.port, "grpc": 9001}
    api.apply(body)
    for pod in eventually("the new pod", lambda: newer(kubelet, served)):
        kubelet.run(pod)
    moved = {"http": server.port, "grpc": 9001}
    eventually("moved", lambda: service_ports(api) == moved)


def test_an_added_service_port_is_kept(
    served: dict[str, Any], api: Api, server: ModelServer
) -> None:
    added = {"name": "metrics", "port": 9090, "targetPort": 9090, "protocol": "TCP"}
    api.patch("Service", "iris", [{"op": "add", "path": "/spec/ports/-", "value": added}], "json")

    edit(api, "Service", "/spec/ports/0/port", 7777)

    wanted = {"http": server.port, "grpc": 8001, "metrics": 9090}
    eventually("repaired", lambda: service_ports(api) == wanted)


def test_the_service_of_a_refused_spec_is_restored(
    served: dict[str, Any], api: Api, kubelet: Kubelet
) -> None:
    before = api.get("Service", "iris")
    short = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3]}
    tests = [{"name": "short", "inputs": [short]}]
    api.patch("InferenceModel", "iris", {"spec": {"smokeTests": {"tests": tests}}})
    accepted = ("False", "InvalidSpec")
    eventually("refused", lambda: api.condition("iris", "Accepted") == accepted)

    edit(api, "Service", "/spec/selector", {"app": "elsewhere"})
    eventually("repaired", lambda: api.get("Service", "iris")["spec"] == before["spec"])

    api.delete("Service", "iris")

    def created() -> dict[str, Any] | None:
        found = api.get("Service", "iris")
        return found if found and found["metadata"]["uid"] != before["metadata"]["uid"] else None

    again = eventually("created again", created)
    assert service_ports(api) == {each["name"]: each["port"] for each in before["spec"]["ports"]}
    assert again["spec"]["selector"] == before["spec"]["selector"]
    assert api.condition("iris", "Accepted") == accepted
    assert api.condition("iris", "Ready") == ("True", "ServingPreviousRevision")
    (pod,) = kubelet.pods("iris")
    assert pod["metadata"]["uid"] == served["metadata"]["uid"]


@pytest.mark.parametrize(
    ("path", "value"),
    [(f"{PORTS}/0/containerPort", 7777), ("/spec/template/spec/containers/0/name", "other")],
)
def test_an_edited_key_in_the_pod_template_is_restored(
    served: dict[str, Any], api: Api, path: str, value: Any
) -> None:
    before = containers(api)

    edit(api, "Deployment", path, value)

    eventually("repaired", lambda: containers(api) == before)
    eventually("accepted", lambda: api.condition("iris", "Accepted") == ("True", "Valid"))
    assert ("moorage", "Update") not in managers(api, "Deployment")


def test_a_key_edited_while_the_operator_was_down_is_restored(
    served: dict[str, Any],
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
) -> None:
    operator.stop()
    try:
        edit(api, "Service", "/spec/ports/0/port", 7777)
        edit(api, "Deployment", f"{PORTS}/0/containerPort", 7777)
        body = iris(server, "example/server:2")
        body["spec"]["runtime"]["ports"] = {"http": server.port, "grpc": 9001}
        api.apply(body)
    finally:
        operator.start()

    wanted = [server.port, 9001]
    eventually("rolled", lambda: container_ports(containers(api)) == wanted, seconds=40)
    # the Service keeps its ports until pods serve the new ones
    new = eventually(
        "the new pod",
        lambda: [
            pod
            for pod in kubelet.pods("iris")
            if container_ports(pod["spec"]["containers"]) == wanted
        ],
    )
    for pod in new:
        kubelet.run(pod)
    eventually("moved", lambda: service_ports(api) == {"http": server.port, "grpc": 9001})


@pytest.mark.parametrize("label", ["moorage.dev/model", "app.kubernetes.io/managed-by"])
def test_a_deployment_of_one_revision_gets_a_lost_label_back(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer, label: str
) -> None:
    rollout = {"strategy": "BlueGreen", "blueGreen": {"keepSeconds": 10}}
    api.apply(iris(server, "example/server:2", rollout=rollout))
    for pod in eventually("two pods", lambda: len(found := kubelet.pods("iris")) == 2 and found):
        kubelet.run(pod)
    eventually("one Deployment", lambda: len(found := api.list("Deployment")) == 1 and found)
    complete = ("True", "RolloutComplete")
    eventually("up to date", lambda: api.condition("iris", "UpToDate") == complete)
    (before,) = api.list("Deployment")
    name = before["metadata"]["name"]
    assert name.startswith("iris-")

    api.patch("Deployment", name, {"metadata": {"labels": {label: None}}})

    def labels() -> dict[str, str]:
        return api.get("Deployment", name)["metadata"]["labels"]

    eventually("labelled", lambda: labels() == before["metadata"]["labels"])
    # A model that is edited afterwards shows that the operator has it in sight again.
    api.patch("InferenceModel", "iris", {"spec": {"replicas": 2}})
    eventually("scaled", lambda: api.get("Deployment", name)["spec"]["replicas"] == 2)
    (after,) = api.list("Deployment")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    for pod in eventually("two pods", lambda: len(found := kubelet.pods("iris")) == 2 and found):
        kubelet.run(pod)
    eventually("up to date", lambda: api.condition("iris", "UpToDate") == complete)


@pytest.mark.usefixtures("served")
def test_an_edited_image_of_a_paused_model_is_reported_until_it_is_undone(api: Api) -> None:
    api.patch("InferenceModel", "iris", {"spec": {"paused": True}})
    eventually("paused", lambda: api.condition("iris", "Paused") == ("True", "Paused"))
    assert api.condition("iris", "UpToDate") == ("True", "RolloutComplete")
    path = "spec.template.spec.containers[runtime].image"

    edit(api, "Deployment", "/spec/template/spec/containers/0/image", "example/other:1")
    edited = ("False", "Paused")
    eventually("reported", lambda: api.condition("iris", "UpToDate") == edited)
    conditions = api.get("InferenceModel", "iris")["status"]["conditions"]
    (message,) = [each["message"] for each in conditions if each["type"] == "UpToDate"]
    api.patch("InferenceModel", "iris", {"spec": {"paused": False}})

    eventually("undone", lambda: containers(api)[0]["image"] == "example/server:1")
    settle(api, "iris")
    assert path in message


def test_two_installations_that_serve_one_model_do_not_write_without_end(
    operator: OperatorProcess, api: Api, tmp_path: Path
) -> None:
    """Each one wants its own runtime image, and both write with the same field manager."""
    options = ("--runtime-image", "runtime:other", "--namespaces", api.namespace)
    other = OperatorProcess(operator.kubeconfig, tmp_path / "log", options)
    other.start()
    try:
        api.apply(model("iris", model={"uri": "pvc://models/iris"}))

        def is_refused() -> bool:
            return api.condition("iris", "Accepted") == ("False", "ApplyRefused")

        eventually("the contest is reported", is_refused, seconds=60)
        assert CONTESTED.format("Deployment") in accepted(api)["message"]
    finally:
        other.stop()


@pytest.mark.usefixtures("served")
def test_a_child_that_a_cleanup_deletes_each_time_is_not_created_without_end(api: Api) -> None:
    deleted = set[str]()

    def is_refused() -> bool:
        found = api.get("Service", "iris").get("metadata", {}).get("uid")
        if found and found not in deleted:
            api.delete("Service", "iris")
            deleted.add(found)
        return (accepted(api)["status"], accepted(api)["reason"]) == ("False", "ApplyRefused")

    eventually("the contest is reported", is_refused, seconds=60)
    assert CONTESTED.format("Service") in accepted(api)["message"]
    assert len(deleted) == 11  # the first one, and ten that restored it
    eventually("no traffic", lambda: api.condition("iris") == ("False", "ApplyRefused"))


@pytest.mark.usefixtures("served")
def test_a_status_that_another_program_replaces_each_time_is_not_written_without_end(
    api: Api, operator: OperatorProcess
) -> None:
    def is_reported() -> bool:
        if api.condition("iris")[0] == "True":
            status = api.get("InferenceModel", "iris")["status"]
            for each in status["conditions"]:
                each["status"] = "Unknown"
            api.patch_status("InferenceModel", "iris", status)
        return bool(operator.logged(CONTESTED.format("(the status of InferenceModel)")))

    before = operator.metric("moorage_status_writes_total")
    eventually("the contest is reported", is_reported, seconds=60)
    assert operator.metric("moorage_status_writes_total") - before == 11
