"""An operator that is down: models keep serving, and statuses are updated afterwards."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.inference import in_url, infer
from support.kubectl import KIND, Kubectl
from support.manifests import digits, digits_files, inference_model, sample
from support.traffic import traffic
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600), pytest.mark.expects_restarts]

OPERATOR = "app.kubernetes.io/name=moorage"
CONTRACT = {"policy": "Enforce", "inputs": [{"name": "image", "datatype": "FP32"}]}


@pytest.fixture
def operators(kubectl: Kubectl) -> Iterator[Kubectl]:
    """kubectl in the operator's namespace; one operator is running again at the end."""
    found = Kubectl(kubectl.env, "moorage-system")
    yield found
    found.run("scale", "deployment/moorage", "--replicas=1")
    found.run("rollout", "status", "deployment/moorage", "--timeout=120s")


def living(kubectl: Kubectl, name: str) -> list[dict[str, Any]]:
    """The pods of a model that are not terminating."""
    found = kubectl.items("pods", f"moorage.dev/model={name}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def ready(pod: dict[str, Any], condition: str = "Ready") -> bool:
    statuses = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return statuses.get(condition) == "True"


def replaced(kubectl: Kubectl, name: str) -> dict[str, Any]:
    """Delete a pod and wait until its successor's container is ready."""
    before = living(kubectl, name)[0]["metadata"]["name"]
    kubectl.run("delete", "pod", before, "--wait=false")

    def newcomers() -> list[dict[str, Any]]:
        found = living(kubectl, name)
        return [
            pod for pod in found if ready(pod, "ContainersReady") and not is_named(pod, before)
        ]

    return eventually(f"a successor of {before}", newcomers, bool, 90)[-1]


def is_named(pod: dict[str, Any], name: str) -> bool:
    return pod["metadata"]["name"] == name


def conditions_of(kubectl: Kubectl, name: str) -> dict[str, bool]:
    """The model's pods in its status, and which of them are ready."""
    replicas = kubectl.get(KIND, name)["status"].get("replicaStatuses", [])
    return {each["pod"]: each["ready"] for each in replicas}


def restarts(kubectl: Kubectl, name: str) -> int:
    (pod,) = living(kubectl, name)
    return pod["status"]["containerStatuses"][0]["restartCount"]


def test_models_keep_serving_without_an_operator(kubectl, operators):
    uri = {"uri": "configmap://digits-files", "name": "digits"}
    health = {"periodSeconds": 1}
    kubectl.apply(
        digits_files(),
        digits(replicas=2),
        inference_model("gated", model=uri, health=health, contract=CONTRACT),
        inference_model("doomed", model=uri, health=health),
    )
    for name in ("digits", "gated", "doomed"):
        kubectl.wait_condition(name, "UpToDate", "True", seconds=120)
    address = kubectl.get("service", "digits")["spec"]["clusterIP"]

    operators.run("scale", "deployment/moorage", "--replicas=0")
    eventually("no operator", lambda: operators.items("pods", OPERATOR), lambda n: not n, 60)
    with traffic(f"http://{in_url(address)}:8000/v2/models/digits/infer", sample(3)) as tally:
        # deleted: nothing of the model waits for anybody
        kubectl.run("delete", KIND, "doomed", "--timeout=20s")
        eventually("its pods go", lambda: living(kubectl, "doomed"), lambda pods: not pods, 60)
        assert kubectl.get("service", "doomed") == {}

        # restarted: a container whose gate is open comes back by itself
        (gated,) = living(kubectl, "gated")
        script = "import os, signal; os.kill(1, signal.SIGTERM)"
        command = ("python3", "-c", script)
        kubectl.run("exec", gated["metadata"]["name"], "-c", "runtime", "--", *command)
        eventually("a restart", lambda: restarts(kubectl, "gated"), lambda n: n == 1, 60)
        eventually("it serves", lambda: ready(living(kubectl, "gated")[0]), bool, 60)

        # replaced: the kubelet's word is enough, but for a pod that has to be compared first
        after = replaced(kubectl, "digits")["metadata"]["name"]
        eventually("all serve", lambda: [ready(pod) for pod in living(kubectl, "digits")], all, 60)
        assert after in {pod["metadata"]["name"] for pod in living(kubectl, "digits")}
        newcomer = replaced(kubectl, "gated")
        assert ready(newcomer, "ContainersReady")
        assert not ready(newcomer)

        # scaled: the Deployment at once, the model once the operator reads it
        kubectl.run("scale", "deployment/digits", "--replicas=3")
        eventually(
            "three serve",
            lambda: [ready(pod) for pod in living(kubectl, "digits")],
            lambda pods: pods == [True] * 3,
            60,
        )
        kubectl.run("scale", f"{KIND}/digits", "--replicas=1")

        operators.run("scale", "deployment/moorage", "--replicas=1")
        kubectl.wait_condition("digits", "UpToDate", "True", seconds=90)
        # until the operator has looked, the status is that of the pod before
        eventually(
            "the new model has a status and serves",
            lambda: conditions_of(kubectl, "gated"),
            lambda pods: pods == {newcomer["metadata"]["name"]: True},
            60,
        )
        kubectl.wait_condition("gated", "Ready", "True", "Serving", seconds=30)

    assert tally.failures == []
    assert kubectl.row("digits")["REPLICAS"] == "1/1"
    assert kubectl.row("gated")["REPLICAS"] == "1/1"
    assert infer(kubectl, "digits") == 3
