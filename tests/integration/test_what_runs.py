"""Serving revisions keep serving and are reported correctly, on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.iris import IMPATIENT, alive
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

GATE = "moorage.dev/model-ready"


def iris(port: int, image: str = "example/good:1", **spec: Any) -> dict[str, Any]:
    runtime = {"image": image, "ports": {"http": port, "grpc": 1}}
    return model("iris", **{"runtime": runtime, "health": IMPATIENT, **spec})


def pods_beside(kubelet: Kubelet, known: list[dict[str, Any]], count: int = 1) -> list[Any]:
    """Wait for this many pods that are not among the known ones."""
    names = {pod["metadata"]["name"] for pod in known}

    def found() -> list[Any]:
        new = [pod for pod in alive(kubelet) if pod["metadata"]["name"] not in names]
        return new if len(new) == count else []

    return eventually(f"{count} new pods", found)


def status(api: Api) -> dict[str, Any]:
    return api.get("InferenceModel", "iris").get("status", {})


def conditions(api: Api) -> dict[str, tuple[str, str]]:
    """All conditions of one status."""
    found = status(api).get("conditions", [])
    return {each["type"]: (each["status"], each["reason"]) for each in found}


def gate(pod: dict[str, Any]) -> str:
    found = [each["status"] for each in pod["status"]["conditions"] if each["type"] == GATE]
    return found[0] if found else ""


@pytest.fixture
def served(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> dict[str, Any]:
    """The pod of a model that is up to date."""
    api.apply(iris(server.port))
    (pod,) = pods_beside(kubelet, [])
    kubelet.run(pod)
    settle(api, "iris")
    return pod


# ---------------------------------------------------------------------- an invalid spec

SHORT = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3]}


def test_a_replacement_pod_is_judged_by_the_last_valid_spec(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    contract = {"policy": "Enforce", "inputs": [{"name": "x", "datatype": "FP32"}]}
    api.apply(iris(server.port, contract=contract))
    (first,) = pods_beside(kubelet, [])
    kubelet.run(first)
    settle(api, "iris")

    tests = [{"name": "short", "inputs": [SHORT]}]
    api.patch("InferenceModel", "iris", {"spec": {"smokeTests": {"tests": tests}}})
    eventually("reported", lambda: conditions(api)["Accepted"] == ("False", "InvalidSpec"))
    assert conditions(api)["Ready"] == ("True", "ServingPreviousRevision")
    api.delete("Pod", first["metadata"]["name"])
    (second,) = pods_beside(kubelet, [first])
    eventually("no pod is ready", lambda: conditions(api)["Ready"][0] == "False")
    kubelet.run(second)

    eventually("let in", lambda: gate(alive(kubelet)[0]) == "True")
    eventually("ready", lambda: conditions(api)["Ready"] == ("True", "ServingPreviousRevision"))
    assert conditions(api)["Accepted"] == ("False", "InvalidSpec")
    server.ready = False
    eventually("shut", lambda: gate(alive(kubelet)[0]) == "False")


# ---------------------------------------------------------------------- who is a replica


def test_a_pod_of_another_deployment_is_not_a_replica(
    served: dict[str, Any], api: Api, kubelet: Kubelet
) -> None:
    labels = dict(served["metadata"]["labels"])
    del labels["pod-template-hash"]  # the ReplicaSet would adopt it
    container = {"name": "runtime", "image": "example/good:1"}
    stranger = api.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "stranger", "labels": labels},
            "spec": {"containers": [container]},
        }
    )
    kubelet.run(stranger)

    kubelet.run(served, ready=False)

    eventually("not ready", lambda: conditions(api)["Ready"][0] == "False")
    assert status(api)["replicas"] == 1
    assert [each["pod"] for each in status(api)["replicaStatuses"]] == [served["metadata"]["name"]]


# ---------------------------------------------------------------------- lost and left pods


def test_a_lost_pod_is_not_a_rollout(served: dict[str, Any], api: Api, kubelet: Kubelet) -> None:
    api.delete("Pod", served["metadata"]["name"])

    eventually("not ready", lambda: conditions(api)["Ready"][0] == "False")

    assert conditions(api)["UpToDate"] == ("True", "RolloutComplete")
    assert not conditions(api).keys() & {"Reconciling", "Stalled"}
    (new,) = pods_beside(kubelet, [served])
    kubelet.run(new)
    eventually("ready", lambda: conditions(api)["Ready"] == ("True", "Serving"))


def test_a_recreated_model_waits_for_the_deletion_of_former_children(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    api.patch("Service", "iris", hold)
    api.delete("InferenceModel", "iris")
    eventually("gone", lambda: not api.get("InferenceModel", "iris"))
    api.apply(iris(server.port))

    eventually("waits", lambda: conditions(api).get("Accepted") == ("False", "AwaitingDeletion"))
    assert "Stalled" not in conditions(api)
    assert "Reconciling" in conditions(api)

    api.patch("Service", "iris", {"metadata": {"finalizers": None}})
    (new,) = pods_beside(kubelet, [served])
    kubelet.run(new)
    settle(api, "iris")
    assert conditions(api)["Accepted"] == ("True", "Valid")


def test_a_child_that_a_finalizer_keeps_is_reported_until_it_is_created_again(
    served: dict[str, Any], api: Api
) -> None:
    api.patch("Service", "iris", {"metadata": {"finalizers": ["example.com/hold"]}})
    api.delete("Service", "iris")

    eventually("waits", lambda: conditions(api).get("Accepted") == ("False", "AwaitingDeletion"))
    assert conditions(api)["Ready"] == ("True", "Serving")

    api.patch("Service", "iris", {"metadata": {"finalizers": None}})
    eventually("created", lambda: conditions(api)["Accepted"] == ("True", "Valid"))
    assert "deletionTimestamp" not in api.get("Service", "iris")["metadata"]


def test_a_model_that_finalizers_keep_says_that_it_is_being_deleted(
    served: dict[str, Any], api: Api, operator: OperatorProcess
) -> None:
    api.patch("InferenceModel", "iris", {"metadata": {"finalizers": ["example.com/hold"]}})
    api.delete("InferenceModel", "iris")

    eventually("says so", lambda: conditions(api) == {"Ready": ("False", "Deleting")})
    assert not status(api).keys() & {"replicaSummary", "replicaStatuses", "endpoints"}
    assert api.get("Deployment", "iris")["spec"]["replicas"] == 1
    written = api.get("InferenceModel", "iris")["metadata"]["resourceVersion"]
    operator.stop()
    operator.start()
    api.apply(model("other"))
    eventually("the operator works", lambda: api.get("Deployment", "other"))
    assert api.get("InferenceModel", "iris")["metadata"]["resourceVersion"] == written

    api.patch("InferenceModel", "iris", {"metadata": {"finalizers": None}})
    eventually("gone", lambda: not api.get("InferenceModel", "iris"))


def test_remaining_pods_of_blue_green_do_not_affect_up_to_date(
    served: dict[str, Any], api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    rollout = {"strategy": "BlueGreen", "blueGreen": {"keepSeconds": 10}}
    (replica_set,) = api.list("ReplicaSet", "moorage.dev/model=iris")
    name = replica_set["metadata"]["name"]
    api.patch("ReplicaSet", name, {"metadata": {"finalizers": ["example.com/hold"]}})
    api.apply(iris(server.port, "example/good:2", rollout=rollout))
    (new,) = pods_beside(kubelet, [served])
    kubelet.run(new)
    complete = ("True", "RolloutComplete")
    eventually("complete", lambda: api.condition("iris", "UpToDate") == complete)
    since = up_to_date_since(api)

    eventually("its Deployment is gone", lambda: len(api.list("Deployment")) == 1)
    eventually("its time is over", lambda: "retiring" not in status(api)["revisions"])

    assert len(alive(kubelet)) == 2
    assert api.condition("iris", "UpToDate") == complete
    assert up_to_date_since(api) == since
    api.patch("ReplicaSet", name, {"metadata": {"finalizers": None}})


def up_to_date_since(api: Api) -> str:
    found = [each for each in status(api)["conditions"] if each["type"] == "UpToDate"]
    return found[0]["lastTransitionTime"]


# ---------------------------------------------------------------------- ports and names


@pytest.fixture
def moved() -> Iterator[ModelServer]:
    """A second server on its own port, for a model with another name."""
    with ModelServer("rose") as made:
        yield made


def service_ports(api: Api) -> dict[str, tuple[int, int | str]]:
    ports = api.get("Service", "iris")["spec"]["ports"]
    return {each["name"]: (each["port"], each["targetPort"]) for each in ports}


def reached(api: Api, kubelet: Kubelet) -> set[tuple[str, int]]:
    """The pod and port number of each endpoint of the Service for HTTP.

    As the EndpointSlice controller finds them, which refuses the loopback addresses of these pods.
    """
    spec = api.get("Service", "iris")["spec"]
    (target,) = [each["targetPort"] for each in spec["ports"] if each["name"] == "http"]
    found: set[tuple[str, int]] = set()
    for pod in alive(kubelet):
        ready = [each["status"] for each in pod["status"]["conditions"] if each["type"] == "Ready"]
        if ready != ["True"] or not spec["selector"].items() <= pod["metadata"]["labels"].items():
            continue
        named = [
            port["containerPort"]
            for container in pod["spec"]["containers"]
            for port in container.get("ports", [])
            if target in {port.get("name"), port["containerPort"]}
        ]
        found.add((pod["metadata"]["name"], named[0] if named else 0))
    return found


def test_an_edit_of_the_ports_keeps_serving_pods_reachable(
    served: dict[str, Any],
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    moved: ModelServer,
) -> None:
    old = (served["metadata"]["name"], server.port)
    eventually("reached", lambda: reached(api, kubelet) == {old})
    assert service_ports(api)["http"] == (server.port, "http")
    moved.ready = False
    edit = {"rollout": {"onFailure": "Pause"}, "model": {"name": "rose"}}

    api.apply(iris(moved.port, **edit))
    (new,) = pods_beside(kubelet, [served])
    kubelet.run(new, ready=False)
    eventually("asked", lambda: "/v2/models/rose/ready" in moved.requests)
    eventually(
        "rolling out", lambda: conditions(api)["Ready"] == ("True", "ServingPreviousRevision")
    )

    assert reached(api, kubelet) == {old}
    assert service_ports(api)["http"] == (server.port, "http")
    assert status(api)["model"]["name"] == "iris"
    (url,) = [each["url"] for each in status(api)["endpoints"]]
    assert url.endswith(f":{server.port}/v2/models/iris/infer")

    moved.ready = True
    kubelet.run(new)
    complete = ("True", "RolloutComplete")
    eventually("up to date", lambda: api.condition("iris", "UpToDate") == complete)
    eventually("moved", lambda: service_ports(api)["http"] == (moved.port, "http"))
    eventually("reached", lambda: reached(api, kubelet) == {(new["metadata"]["name"], moved.port)})
    url = f"http://iris.{api.namespace}.svc.cluster.local:{moved.port}/v2/models/rose/infer"
    eventually("reported", lambda: [each["url"] for each in status(api)["endpoints"]] == [url])
    assert status(api)["model"]["name"] == "rose"


# ---------------------------------------------------------------------- what is enforced


def test_an_edit_of_an_enforced_contract_closes_no_gate_of_serving_pods(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    def contract(datatype: str) -> dict[str, Any]:
        tensor = {"name": "x", "datatype": datatype}
        return {"contract": {"policy": "Enforce", "inputs": [tensor]}}

    api.apply(iris(server.port, replicas=2, **contract("FP32")))
    old = pods_beside(kubelet, [], count=2)
    for pod in old:
        kubelet.run(pod)
    settle(api, "iris")

    api.patch("InferenceModel", "iris", {"spec": contract("FP64")})
    (new,) = pods_beside(kubelet, old)
    kubelet.run(new, gated=True)
    eventually("rolled back", lambda: conditions(api)["UpToDate"] == ("False", "RolledBack"))

    assert conditions(api)["Ready"] == ("True", "ServingPreviousRevision")
    assert status(api)["revisions"]["rejected"]["reason"] == "DatatypeMismatch"
    kept = {pod["metadata"]["name"] for pod in old}
    assert [gate(pod) for pod in alive(kubelet) if pod["metadata"]["name"] in kept] == ["True"] * 2

    api.patch("InferenceModel", "iris", {"spec": contract("FP32")})
    complete = ("True", "RolloutComplete")
    eventually("up to date", lambda: api.condition("iris", "UpToDate") == complete)
    assert {pod["metadata"]["name"] for pod in alive(kubelet)} == kept


# ---------------------------------------------------------------------- silence


def test_silence_of_most_models_is_an_outage_of_the_operator(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    names = ("iris", "rose", "lily", "aloe")
    with ModelServer() as server:
        port = server.port
        for name in names:
            runtime = {"image": "example/good:1", "ports": {"http": port, "grpc": 1}}
            contract = {"policy": "Enforce", "inputs": [{"name": "x"}]}
            spec = {"runtime": runtime, "model": {"name": "iris"}, "health": IMPATIENT}
            api.apply(model(name, **spec, contract=contract))
        for name in names:
            (pod,) = eventually("a pod", lambda name=name: kubelet.pods(name))
            kubelet.run(pod)
        for name in names:
            settle(api, name)

    def verdicts() -> set[tuple[str, str]]:
        return {api.condition(name) for name in names}

    eventually("unknown", lambda: verdicts() == {("Unknown", "OperatorCutOff")})
    assert [gate(kubelet.pods(name)[0]) for name in names] == ["True"] * 4
    assert {api.condition(name, "UpToDate")[0] for name in names} == {"True"}
    assert operator.logged("(most models do not answer the operator)")

    with ModelServer(port=port):
        eventually("ready", lambda: verdicts() == {("True", "Serving")}, seconds=60)
        assert operator.logged("(most models answer the operator again)")
