"""The tree of a rollout."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.judge.model_view import ModelView, view
from moorage_cli.judge.rollout import KeptRevision, line, tree
from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.tables import Palette, Tone
from support.cli_conditions import condition

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAIN = Palette(coloured=False)
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
    palette: Palette = PLAIN,
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
    return tree(view(body), kept, NOW, palette)


def drawn(name: str = "iris", spec: Any = None, **status: Any) -> Report:
    """The tree of a model without a namespace and without kept revisions."""
    return tree(model(name, spec, **status), [], NOW, PLAIN)


def model(name: str = "iris", spec: Any = None, **status: Any) -> ModelView:
    metadata = {"name": name, "generation": 2}
    return view(
        {"metadata": metadata, "spec": spec, "status": {"observedGeneration": 2, **status}}
    )


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
    assert row(report, "old")[1:] == ["previous", "0/0", "0/0", "-", "-", "24h", "-"]
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


CANARY = {"revision": "new", "step": 1, "weight": 10, "since": "2026-01-01T11:58:00Z"}
BY_STEPS = {"strategy": "Canary", "canary": {"steps": STEPS}}


def marked(text: str) -> str:
    """The text with the names of its colours."""
    return re.sub(
        "\x1b\\[(\\d+)m(.*?)\x1b\\[0m", lambda found: f"<{Tone(found[1]).name} {found[2]}>", text
    )


def test_a_tree_on_a_terminal_marks_what_serves_what_waits_and_what_failed() -> None:
    report = shown(
        {
            **ROLLING,
            "retiring": {"revision": "blue"},
            "rejected": {"revision": "bad"},
            "canary": CANARY,
        },
        replica("iris-b", "new", ready=False, modelReady=False, restarts=3, reason="OOMKilled"),
        replica("iris-c", "new", modelReady=False, since=None),
        replica("iris-a", "old"),
        replica("iris-d", "bad", ready=False),
        spec=BY_STEPS,
        palette=Palette(coloured=True),
        timings={"revision": "old", "scheduled": 0, "total": 12000},
        omittedReplicas=4,
    )

    headline, *rest = marked(report.text).splitlines()
    assert headline == "models/iris: <UNSURE RollingOut>, Canary, 1/2 replicas"
    assert rest[:3] == [
        "  message of UpToDate",
        "  step 1 of 2, 10 percent of the requests: 3m left",
        "  first replica of old served after 12s: scheduling 0s",
    ]
    assert [" ".join(each.split()) for each in rest[5:13]] == [
        "├─ new <UNSURE candidate> <UNSURE 1/2> <UNSURE 0/2> 10 % 3 2m -",
        "│ ├─ iris-b <BAD fails> no no - 3 5m OOMKilled",
        "│ └─ iris-c <UNSURE waits> yes no - 0 - -",
        "├─ old last good <GOOD 1/1> <GOOD 1/1> 90 % 0 24h -",
        "│ └─ iris-a <GOOD serves> yes yes - 0 5m -",
        "├─ blue retiring 0/0 0/0 - - - -",
        "└─ bad <BAD failed> <UNSURE 0/1> <UNSURE 1/1> - 0 - -",
        "└─ iris-d <UNSURE waits> no yes - 0 5m -",
    ]
    assert rest[13] == "The status omits 4 more replicas."
    assert rest[15] == "Cause: <HEAD OOMKilled>"
    assert rest[-1].startswith("Fix: <UNSURE raise runtime.resources.limits.memory")


def test_the_document_of_a_rollout_says_what_the_tree_shows() -> None:
    waits = replica("iris-b", "new", ready=False, since=None)

    report = shown(
        {**ROLLING, "retiring": {"revision": "blue"}, "canary": CANARY},
        waits,
        replica("iris-a", "old"),
        spec=BY_STEPS,
        timings={"revision": "old", "scheduled": 0, "total": 12000},
    )

    assert report.names == ("iris",)
    assert report.document == {
        "namespace": "models",
        "name": "iris",
        "outcome": "pending",
        "reason": "RollingOut",
        "message": "message of UpToDate",
        "strategy": "Canary",
        "replicas": "1/2",
        "canary": {**CANARY, "steps": 2, "since": "2026-01-01T11:58:00+00:00"},
        "timings": {"revision": "old", "scheduled": 0, "total": 12000},
        "revisions": [
            {
                "revision": "new",
                "state": "candidate",
                "weight": 10,
                "created": "2026-01-01T11:58:00+00:00",
                "ready": 0,
                "modelReady": 1,
                "total": 1,
                "replicas": [{**waits, "reason": "", "message": ""}],
            },
            {
                "revision": "old",
                "state": "last good",
                "weight": 90,
                "created": "2025-12-31T12:00:00+00:00",
                "ready": 1,
                "modelReady": 1,
                "total": 1,
                "replicas": [
                    {
                        **replica("iris-a", "old"),
                        "reason": "",
                        "message": "",
                        "since": "2026-01-01T11:55:00+00:00",
                    }
                ],
            },
            {
                "revision": "blue",
                "state": "retiring",
                "weight": None,
                "created": None,
                "ready": 0,
                "modelReady": 0,
                "total": 0,
                "replicas": [],
            },
        ],
        "cause": None,
    }


def test_a_rollout_without_a_status_waits_for_the_operator() -> None:
    report = drawn()

    assert report.text == "iris: waiting for the operator, RollingUpdate, 0 replicas\n"
    assert report.document == {
        "namespace": "",
        "name": "iris",
        "outcome": "pending",
        "reason": "",
        "message": "",
        "strategy": "RollingUpdate",
        "replicas": "",
        "canary": None,
        "timings": None,
        "revisions": [],
        "cause": None,
    }


def test_the_reason_and_the_message_of_an_earlier_spec_are_not_shown() -> None:
    conditions = [
        condition("Ready", "True", "Serving"),
        condition("UpToDate", "True", "RolloutComplete", "all is well"),
    ]

    report = drawn(observedGeneration=1, conditions=conditions)

    assert report.text.startswith("iris: waiting for the operator, ")
    assert "all is well" not in report.text


def test_after_a_rollout_the_headline_says_why_the_model_does_not_serve() -> None:
    conditions = [
        condition("Ready", "False", "Suspended"),
        condition("UpToDate", "True", "RolloutComplete"),
    ]

    report = drawn(conditions=conditions)

    assert report.text.startswith("iris: Suspended, ")


def test_the_headline_of_a_model_that_serves_says_that_its_rollout_is_complete() -> None:
    report = shown(DONE, replica("iris-a", "new"), reason="RolloutComplete")

    assert report.text.startswith("models/iris: RolloutComplete, ")


def test_a_model_that_serves_has_no_cause_despite_its_notes() -> None:
    conditions = [
        condition("Ready", "True", "Serving"),
        condition("UpToDate", "True", "RolloutComplete"),
        condition("RouteAccepted", "False", "GatewayRefused", "no such listener"),
    ]

    report = drawn(conditions=conditions)

    assert report.ok
    assert "GatewayRefused" not in report.text
    assert report.document["cause"] is None


def test_a_first_revision_that_fails_for_good_has_failed_when_its_patience_ends() -> None:
    conditions = [
        condition("Ready", "False", "ModelLoadFailed"),
        condition("UpToDate", "False", "RollingOut"),
        condition("Stalled", "True", "ModelLoadFailed", since="2026-01-01T11:59:40Z"),
    ]

    report = drawn(conditions=conditions)

    assert report.text.startswith("iris: RollingOut, ")
    assert report.exit_code is ExitCode.ROLLOUT_FAILED


def test_a_cause_that_lasts_has_another_fix_than_waiting() -> None:
    conditions = [
        condition("ModelReady", "False", "ModelLoading", since="2026-01-01T11:40:00Z"),
        condition("Ready", "False", "ModelLoading"),
    ]

    assert "Fix: it has lasted 20m: see the server's log\n" in drawn(conditions=conditions).text


def test_a_cause_of_unknown_reason_has_no_fix() -> None:
    conditions = [condition("ModelReady", "False", "NewReason", "new words")]

    assert drawn(conditions=conditions).text.endswith("\nCause: NewReason\n  new words\n")


@pytest.mark.parametrize(
    ("steps", "step", "fact"),
    [
        ([{"weight": 50}], 1, "step 1 of 1, 50 percent of the requests: waits for approval"),
        ([{"weight": 50}], 2, "all steps are done: the canary receives all requests\n"),
        # somebody has removed the steps
        ([], 1, "step 1 of 0, 50 percent of the requests: waits for approval"),
    ],
)
def test_the_last_step_of_a_canary_is_followed_by_all_requests(
    steps: list[dict[str, int]], step: int, fact: str
) -> None:
    spec = {"rollout": {"strategy": "Canary", "canary": {"steps": steps}}}
    canary = {**CANARY, "step": step, "weight": 50}

    report = drawn(spec=spec, revisions={"canary": canary})

    assert report.text.splitlines(keepends=True)[1].startswith(f"  {fact}")


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


READY = condition("Ready", "False", "ModelLoading", "it loads")
DONE_ROLLING = condition("UpToDate", "True", "RolloutComplete", "all replicas")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, "waiting for the operator"),
        ({"observedGeneration": 1}, "waiting for the operator"),
        (
            {"conditions": [condition("Ready", "False", "Deleting", "it ends")]},
            "Deleting: it ends",
        ),
        ({"observedGeneration": 1, "conditions": [DONE_ROLLING]}, "waiting for the operator"),
        ({"conditions": [READY, DONE_ROLLING]}, "ModelLoading: it loads"),
        (
            {
                "replicaSummary": "1/2",
                "conditions": [READY, condition("UpToDate", "False", "RollingOut", "one waits")],
            },
            "1/2 replicas, RollingOut: one waits",
        ),
    ],
)
def test_a_line_says_where_the_rollout_is(status: dict[str, Any], words: str) -> None:
    assert line(model(**status)) == words


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
            PLAIN,
        )
        json.dumps(report.document)
