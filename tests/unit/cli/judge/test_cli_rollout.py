"""The tree of a rollout."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.judge.model_view import view
from moorage_cli.judge.rollout import KeptRevision, line, tree
from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.tables import Palette

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEPT = [
    KeptRevision("new", datetime(2026, 1, 1, 11, 58, tzinfo=UTC)),
    KeptRevision("old", datetime(2025, 12, 31, 12, tzinfo=UTC)),
]
STEPS = [{"weight": 10, "pauseSeconds": 300}, {"weight": 50}]
DONE = {"current": "new", "lastGood": "new"}
ROLLING = {"current": "new", "candidate": "new", "lastGood": "old"}


def replica(pod: str, revision: str, **state: Any) -> dict[str, Any]:
    serves = {"ready": True, "modelReady": True, "restarts": 0, "since": "2026-01-01T11:55:00Z"}
    return {"pod": pod, "revision": revision, **serves, **state}


WAITING = replica(
    "iris-b", "new", ready=False, modelReady=False, reason="ImagePullBackOff", message="no image"
)


def shown(
    revisions: dict[str, Any],
    *replicas: dict[str, Any],
    reason: str = "RollingOut",
    ready: str = "Serving",
    spec: dict[str, Any] | None = None,
    kept: Sequence[KeptRevision] = KEPT,
    **status: Any,
) -> Report:
    def condition(type_: str, why: str, holds: bool) -> dict[str, Any]:
        message = f"message of {type_}"
        return {"type": type_, "status": str(holds), "reason": why, "message": message,
                "observedGeneration": 2}  # fmt: skip

    conditions = [
        condition("Ready", ready, holds=True),
        condition("UpToDate", reason, holds=reason == "RolloutComplete"),
    ]
    body = {
        "metadata": {"name": "iris", "namespace": "models", "generation": 2},
        "spec": {"rollout": spec or {}},
        "status": {
            "observedGeneration": 2,
            "replicaSummary": "1/2",
            "revisions": revisions,
            "replicaStatuses": list(replicas),
            "conditions": conditions,
            **status,
        },
    }
    return tree(view(body), kept, NOW, Palette(coloured=False))


def row(report: Report, name: str) -> list[str]:
    lines = [each for each in report.text.splitlines() if "─" in each]
    (found,) = [each for each in lines if name in each.split()]
    return found.replace("│", " ").split()[1:]


def test_a_rollout_has_a_branch_for_the_candidate_and_the_last_good_revision() -> None:
    other = replica("iris-c", "new", restarts=2)

    report = shown(ROLLING, WAITING, other, replica("iris-a", "old"))

    _, _, *table = report.text.partition("\n\n")[2].partition("\n\n")[0].splitlines()
    leads = [each.partition("iris-")[0].partition("new")[0].partition("old")[0] for each in table]
    assert leads == ["│  ├─ ", "│  └─ ", "└─ ", "   └─ "]
    assert report.text.startswith("models/iris: RollingOut, RollingUpdate, 1/2 replicas\n")
    assert row(report, "new") == ["new", "candidate", "1/2", "1/2", "-", "2", "2m", "-"]
    assert row(report, "old") == ["old", "last", "good", "1/1", "1/1", "-", "0", "24h", "-"]
    assert row(report, "iris-b")[1:] == [
        "waits", "no", "no", "-", "0", "5m", "ImagePullBackOff:", "no", "image"
    ]  # fmt: skip
    assert row(report, "iris-c")[1:4] == ["serves", "yes", "yes"]
    assert "Cause: ImagePullBackOff\n  no image\nFix: check its name" in report.text
    assert report.exit_code is ExitCode.NOT_OK


def test_after_a_rollout_the_previous_revision_has_no_replicas_and_there_is_no_cause() -> None:
    phases = {"revision": "new", "scheduled": 0, "artifact": 3000, "total": 12000}

    report = shown(DONE, replica("iris-a", "new"), reason="RolloutComplete", timings=phases)

    assert row(report, "new")[1] == "current"
    assert row(report, "old")[1:3] == ["previous", "0/0"]
    assert "new served after 12s: scheduling 0s, model files 3s\n" in report.text
    assert "Cause" not in report.text
    assert report.exit_code is ExitCode.OK


def test_a_revision_that_never_served_is_not_the_previous_one() -> None:
    kept = [KEPT[0], KeptRevision("broken", KEPT[0].created), *KEPT[1:]]

    report = shown({**DONE, "unproven": ["broken"]}, replica("iris-a", "new"), kept=kept)

    assert row(report, "old")[1] == "previous"
    assert "broken" not in report.text


@pytest.mark.parametrize(
    ("canary", "fact"),
    [
        ({"step": 0, "weight": 0}, "before step 1 of 2"),
        ({"step": 1, "weight": 10}, "step 1 of 2, 10 percent of the requests: waits for the g"),
        ({"step": 1, "weight": 10, "since": "2026-01-01T11:58:00Z"}, "requests: 3m left"),
        ({"step": 2, "weight": 50, "since": "2026-01-01T11:58:00Z"}, "moorage promote iris"),
        ({"step": 3, "weight": 100}, "the canary receives all requests"),
    ],
)
def test_a_canary_shows_its_weights_its_step_and_what_ends_it(canary, fact) -> None:
    revisions = {**ROLLING, "canary": {"revision": "new", **canary}}
    spec = {"strategy": "Canary", "canary": {"steps": STEPS}}

    report = shown(revisions, replica("iris-b", "new"), replica("iris-a", "old"), spec=spec)

    assert fact in report.text
    assert row(report, "new")[4] == str(canary["weight"])
    assert row(report, "old")[5] == str(100 - canary["weight"])
    document = report.document
    assert [each["weight"] for each in document["revisions"]] == [
        canary["weight"], 100 - canary["weight"]
    ]  # fmt: skip
    assert (document["canary"]["step"], document["canary"]["steps"]) == (canary["step"], 2)


def test_a_failed_revision_has_the_exit_status_of_a_failed_rollout() -> None:
    revisions = {"current": "new", "lastGood": "old", "rejected": {"revision": "new"}}

    report = shown(revisions, replica("iris-a", "old"), reason="RolledBack")

    assert row(report, "new")[1:3] == ["failed", "0/0"]
    assert (report.exit_code, report.document["outcome"]) == (ExitCode.ROLLOUT_FAILED, "failed")
    assert report.document["cause"]["reason"] == "RolledBack"


def test_the_keys_of_a_replica_in_json_are_in_camel_case() -> None:
    report = shown(DONE, replica("iris-a", "new"), reason="RolloutComplete")

    ((found,), _) = (each["replicas"] for each in report.document["revisions"])
    assert (found["pod"], found["modelReady"]) == ("iris-a", True)
    assert not [key for key in found if "_" in key]


def test_replicas_of_other_revisions_are_shown_too() -> None:
    retiring = {**DONE, "retiring": {"revision": "blue"}}

    report = shown(retiring, replica("iris-x", "lost"), reason="RolloutComplete")

    assert row(report, "blue")[1] == "retiring"
    assert row(report, "lost")[1] == "earlier"


def test_control_characters_of_a_server_are_not_printed() -> None:
    broken = replica("iris\x1b[2J", "new", reason="\x1b]0;a\x07", message="b\x9b2J\u202e")

    report = shown(ROLLING, broken)

    assert not set(report.text) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_a_line_says_where_the_rollout_is() -> None:
    body = {"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}
    assert line(view(body)) == "waiting for the operator"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    )
)
def test_any_status_can_be_drawn(value) -> None:
    for status in ({"revisions": value}, {"revisions": {"canary": value, "current": "a"}}):
        report = tree(
            view({"metadata": {}, "spec": {"rollout": value}, "status": status}),
            [],
            NOW,
            Palette(coloured=False),
        )
        json.dumps(report.document)
