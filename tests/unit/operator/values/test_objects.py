"""Facts about a model's pods."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator.values.objects import ContainerObserved, DeploymentObserved, PodObserved

POD = PodObserved("iris-1-x", "u", datetime(2026, 1, 1, tzinfo=UTC), template_hash="5d8f")


@pytest.mark.parametrize(
    ("revision", "replica_set", "deployment"),
    [
        ("0a1b", "iris-5d8f", "iris"),
        ("0a1b", "iris-0a1b-5d8f", "iris-0a1b"),
        ("", "iris-5d8f", "iris"),
        ("0a1b", "iris-5d8e", ""),
        ("0a1b", "iris-9c9c-5d8f", ""),
        ("0a1b", "", ""),
    ],
)
def test_a_pod_belongs_to_the_deployment_of_its_replica_set(
    revision: str, replica_set: str, deployment: str
) -> None:
    pod = replace(POD, revision=revision, replica_set=replica_set)

    assert pod.deployment_of("iris") == deployment


@pytest.mark.parametrize(
    ("phase", "deleting", "is_active"),
    [
        ("Pending", False, True),
        ("Running", False, True),
        ("Running", True, False),
        ("Succeeded", False, False),
        ("Failed", False, False),
    ],
)
def test_a_pod_counts_until_it_ends_or_is_deleted(
    phase: str, deleting: bool, is_active: bool
) -> None:
    assert replace(POD, phase=phase, deleting=deleting).is_active is is_active


@pytest.mark.parametrize(
    ("container_ready", "facts", "is_lost"),
    [
        (True, {}, True),  # the node controller has set the condition Ready to false
        (False, {}, False),
        (True, {"ready": True}, False),
        (True, {"unready_message": "containers with unready status"}, False),
        (True, {"ready": True, "unready_message": "of before"}, False),
        (True, {"gated": True}, False),
        (True, {"gated": True, "gate_open": False}, False),
        (True, {"gated": True, "gate_open": True}, True),
        (False, {"gated": True}, False),
    ],
)
def test_a_pod_is_lost_if_its_container_is_ready_and_nothing_says_why_it_is_not(
    container_ready: bool, facts: dict[str, Any], is_lost: bool
) -> None:
    runtime = ContainerObserved("runtime", ready=container_ready)

    assert replace(POD, runtime=runtime, **facts).is_lost is is_lost


@pytest.mark.parametrize(("seen", "reported"), [(1, False), (2, True), (3, True)])
def test_a_deployment_is_reported_once_its_controller_has_seen_it(
    seen: int, reported: bool
) -> None:
    found = DeploymentObserved("uid", generation=2, observed_generation=seen)

    assert found.is_reported is reported
