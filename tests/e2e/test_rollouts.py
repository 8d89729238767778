"""Rollouts of real pods under continuous traffic: failed revisions cause no failed request."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.inference import in_url
from support.kubectl import KIND, Kubectl
from support.manifests import config_map, digits, digits_files, inference_model, sample
from support.traffic import Tally, traffic
from support.waiting import eventually

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.expects_errors("is not a valid ONNX model"),
]

PODS = "moorage.dev/model=digits"
HEALTH = {"periodSeconds": 1}
SOON = {"progressDeadlineSeconds": 8}
EDITED = {"env": [{"name": "EDITED", "value": "1"}]}


@pytest.fixture
def served(kubectl: Kubectl) -> Kubectl:
    """A namespace in which two replicas of the digits model serve."""
    kubectl.apply(digits_files(), digits(replicas=2))
    kubectl.wait_condition("digits", "UpToDate", "True", seconds=120)
    return kubectl


@pytest.fixture
def clients(served: Kubectl) -> Iterator[Tally]:
    """Traffic through the Service's address until the end of the test, without failures."""
    address = served.get("service", "digits")["spec"]["clusterIP"]
    url = f"http://{in_url(address)}:8000/v2/models/digits/infer"
    with traffic(url, sample(3)) as tally:
        yield tally
    assert tally.answered > 50
    assert tally.failures == []


def uids(kubectl: Kubectl) -> set[str]:
    pods = kubectl.items("pods", PODS)
    return {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def mend(kubectl: Kubectl, **spec: Any) -> None:
    """A valid edit."""
    kubectl.apply(digits(replicas=2, runtime=EDITED, **spec))
    kubectl.wait_condition("digits", "UpToDate", "True", "RolloutComplete", seconds=120)


BAD = {
    "an image that is not there": (
        digits(replicas=2, runtime={"image": "moorage/absent:none"}, rollout=SOON),
        "ImagePullBackOff",
    ),
    "other ports and an image that is not there": (
        digits(
            replicas=2,
            runtime={"image": "moorage/absent:none", "ports": {"http": 9000, "grpc": 9001}},
            rollout=SOON,
        ),
        "ImagePullBackOff",
    ),
    "a model that does not load": (
        inference_model("digits", model={"uri": "configmap://broken"}, replicas=2, health=HEALTH),
        "ModelLoadFailed",
    ),
    "a server that never answers": (
        digits(
            replicas=2,
            runtime={"command": ["python3", "-c", "import time; time.sleep(3600)"]},
            rollout=SOON,
        ),
        "ServerNotLive",
    ),
    "a contract that the model breaks": (
        digits(replicas=2, contract={"policy": "Enforce", "inputs": [{"name": "pixels"}]}),
        "InputMissing",
    ),
}


@pytest.mark.parametrize(("bad", "cause"), BAD.values(), ids=BAD)
def test_a_bad_version_is_rolled_back_and_corrected_without_a_failed_request(
    served: Kubectl, clients: Tally, bad: dict[str, Any], cause: str
) -> None:
    del clients
    before = uids(served)

    served.apply(config_map("broken", {"model.onnx": b"this is no model"}), bad)
    served.wait_condition("digits", "UpToDate", "False", "RolledBack", seconds=120)
    eventually("the bad pods are gone", lambda: uids(served), lambda now: now == before, 60)

    assert served.condition("digits", "Ready")["reason"] == "ServingPreviousRevision"
    rejected = served.get(KIND, "digits")["status"]["revisions"]["rejected"]
    assert rejected["reason"] == cause
    mend(served)
    assert not uids(served) & before


def test_a_paused_rollout_is_corrected_without_a_failed_request(
    served: Kubectl, clients: Tally
) -> None:
    del clients
    before = uids(served)
    rollout = {**SOON, "onFailure": "Pause"}

    served.apply(digits(replicas=2, runtime={"image": "moorage/absent:none"}, rollout=rollout))
    served.wait_condition("digits", "UpToDate", "False", "RolloutPaused", seconds=120)

    assert uids(served) > before
    mend(served)


def test_a_paused_edit_of_the_ports_keeps_clients_connected(
    served: Kubectl, clients: Tally
) -> None:
    del clients
    before = uids(served)
    ports = {"http": 9000, "grpc": 9001}
    rollout = {**SOON, "onFailure": "Pause"}
    runtime = {"image": "moorage/absent:none", "ports": ports}

    served.apply(digits(replicas=2, runtime=runtime, rollout=rollout))
    served.wait_condition("digits", "UpToDate", "False", "RolloutPaused", seconds=120)

    assert uids(served) > before
    (port,) = {
        each["port"]
        for each in served.get("service", "digits")["spec"]["ports"]
        if each["name"] == "http"
    }
    assert port == 8000
    urls = [each["url"] for each in served.get(KIND, "digits")["status"]["endpoints"]]
    assert any(":8000/v2/models/digits/infer" in url for url in urls)
    mend(served)


def test_a_wrong_edit_of_an_enforced_contract_removes_no_replica(
    served: Kubectl, clients: Tally
) -> None:
    del clients

    def contract(datatype: str) -> dict[str, Any]:
        return {"policy": "Enforce", "inputs": [{"name": "image", "datatype": datatype}]}

    served.apply(digits(replicas=2, contract=contract("FP32")))
    served.wait_condition("digits", "UpToDate", "True", "RolloutComplete", seconds=120)
    before = uids(served)

    served.apply(digits(replicas=2, contract=contract("FP64")))
    served.wait_condition("digits", "UpToDate", "False", "RolledBack", seconds=120)

    eventually("the new pods are gone", lambda: uids(served), lambda now: now == before, 60)
    assert served.condition("digits", "Ready")["reason"] == "ServingPreviousRevision"


def test_blue_green_switches_without_a_failed_request(served: Kubectl, clients: Tally) -> None:
    del clients
    before = uids(served)
    rollout = {"strategy": "BlueGreen", "blueGreen": {"keepSeconds": 10}}

    served.apply(digits(replicas=2, rollout=rollout))
    mend(served, rollout=rollout)
    eventually("only the new", lambda: uids(served), lambda now: not now & before, 60)

    assert len(uids(served)) == 2
    mend(served)


def test_recreate_ends_the_earlier_pods_first(served: Kubectl) -> None:
    before = uids(served)

    mend(served, rollout={"strategy": "Recreate"})

    assert len(uids(served)) == 2
    assert not uids(served) & before
