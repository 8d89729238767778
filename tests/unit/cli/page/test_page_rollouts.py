"""The rollout of a model as the page shows it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_cli.page.rollouts import canary, timeline
from moorage_cli.page.rows import details, row

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def condition(type_: str, status: str, reason: str) -> dict[str, Any]:
    message = f"{reason} is the reason"
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
    }


def model(revisions: dict[str, Any], *conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "models", "name": "iris", "generation": 1},
        "spec": spec,
        "status": {
            "observedGeneration": 1,
            "revisions": revisions,
            "conditions": list(conditions),
            "replicaStatuses": [
                {"pod": "a", "revision": "old", "ready": True, "modelReady": True},
                {"pod": "b", "revision": "old", "ready": True, "modelReady": False},
                {"pod": "c", "revision": "new", "ready": False, "reason": "Pending"},
            ],
        },
    }


def kept(revision: str, day: int) -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {"moorage.dev/revision": revision},
            "annotations": {"moorage.dev/spec": json.dumps({"version": 1, "spec": {}})},
            "creationTimestamp": f"2026-03-0{day}T05:06:07Z",
        }
    }


SERVES = condition("Ready", "True", "Serving")
REJECTED = {"revision": "new", "reason": "ModelLoadFailed", "message": "no", "time": "2026-03-03"}


@pytest.mark.parametrize(
    ("revisions", "outcomes"),
    [
        ({"current": "old", "lastGood": "old"}, {"old": "serves"}),
        (
            {"current": "new", "candidate": "new", "lastGood": "old"},
            {"new": "rolls out", "old": "serves"},
        ),
        (
            {"current": "new", "rejected": REJECTED, "lastGood": "old"},
            {"new": "failed: ModelLoadFailed", "old": "serves"},
        ),
        (
            {"current": "new", "rejected": {**REJECTED, "reason": "RolloutAborted"}},
            {"new": "aborted"},
        ),
        (
            {"current": "new", "lastGood": "new", "retiring": {"revision": "old", "time": ""}},
            {"new": "serves", "old": "retired"},
        ),
        (
            {"current": "new", "lastGood": "new", "unproven": ["old"]},
            {"new": "serves", "old": "never served with all replicas"},
        ),
        ({"current": "new"}, {"new": "current"}),
        ({}, {"old": "earlier", "new": "earlier"}),
    ],
)
def test_each_revision_has_its_outcome(
    revisions: dict[str, Any], outcomes: dict[str, str]
) -> None:
    found = {each["revision"]: each["outcome"] for each in timeline(model(revisions, SERVES), [])}
    assert {name: found[name] for name in outcomes} == outcomes


def test_a_revision_whose_model_is_not_ready_served_last() -> None:
    resource = model({"current": "old", "lastGood": "old"}, condition("Ready", "False", "Pending"))
    assert timeline(resource, [])[0]["outcome"] == "served last"


def test_the_newest_revision_comes_first_and_one_without_a_spec_last() -> None:
    resource = model({"current": "new", "lastGood": "lost"}, SERVES)
    found = timeline(resource, [kept("old", 2), kept("new", 3), kept("older", 1)])
    assert [each["revision"] for each in found] == ["new", "old", "older", "lost"]
    assert [each["canRestore"] for each in found] == [False, True, True, False]
    assert [each["pods"] for each in found] == ["0/1 serve", "1/2 serve", "", ""]


def test_a_canary_has_its_share_and_steps() -> None:
    steps = [{"weight": 20}, {"weight": 50, "pauseSeconds": 60}]
    progress = {"revision": "new", "step": 1, "weight": 20, "since": "2026-03-04T05:06:07Z"}
    revisions = {"current": "new", "candidate": "new", "lastGood": "old", "canary": progress}
    resource = model(revisions, SERVES, rollout={"strategy": "Canary", "canary": {"steps": steps}})

    assert canary(resource) == {**progress, "earlier": "old", "steps": steps}
    assert timeline(resource, [])[0]["outcome"] == "rolls out: 20 % of the requests"
    assert canary(model({**revisions, "candidate": ""}, SERVES)) is None
    assert canary(model({}, SERVES)) is None


@pytest.mark.parametrize(
    ("latest", "state"),
    [
        (condition("UpToDate", "True", "RolloutComplete"), "serving"),
        (condition("UpToDate", "Unknown", "Unknown"), "serving"),
        (condition("UpToDate", "False", "AwaitingApproval"), "changing"),
        (condition("UpToDate", "False", "RolledBack"), "stuck"),
        (condition("UpToDate", "False", "RolloutPaused"), "stuck"),
    ],
)
def test_a_model_that_serves_an_earlier_spec_shows_why(latest: dict[str, Any], state: str) -> None:
    found = row(model({}, SERVES, latest))
    assert found["state"] == state
    assert found["reason"] == ("Serving" if state == "serving" else latest["reason"])


def test_a_status_of_another_version_is_no_error() -> None:
    odd = model({"canary": 7, "candidate": [], "rejected": "x", "retiring": None}, SERVES)
    found = details(odd, [{"metadata": {}}, kept("old", 1)], NOW)
    assert found["canary"] is None
    assert {each["revision"] for each in found["timeline"]} == {"x", "old", "new"}


@pytest.mark.parametrize(
    ("reason", "state"),
    [("Pending", "waiting"), ("ModelLoading", "waiting"), ("ImagePullBackOff", "failing")],
)
def test_a_replica_that_starts_is_no_failure(reason: str, state: str) -> None:
    resource = model({}, condition("Ready", "False", reason))
    resource["status"]["replicaStatuses"] = [{"pod": "a", "ready": False, "reason": reason}]
    assert row(resource)["state"] == state
