"""The causes of a model that does not serve, as `moorage why` prints them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage_cli.judge.model_view import ModelView, view
from moorage_cli.judge.why import EventView, causes, why
from moorage_cli.printing.tables import Palette, Tone
from support import cli_conditions

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAIN = Palette(coloured=False)


def model(*conditions: Any, namespace: str = "", generation: int = 2, **status: Any) -> ModelView:
    return view(
        {
            "metadata": {"name": "iris", "namespace": namespace, "generation": generation},
            "status": {"observedGeneration": 2, "conditions": list(conditions), **status},
        }
    )


def condition(
    type_: str, status: str, reason: str, message: str = "", lasted: float | None = None
) -> dict[str, Any]:
    since = None if lasted is None else (NOW - timedelta(seconds=lasted)).isoformat()
    return cli_conditions.condition(type_, status, reason, message, since)


def replica(pod: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"pod": pod, "reason": reason, "message": message}


def failure(reason: str, message: str, **more: Any) -> dict[str, Any]:
    return {"reason": reason, "pod": "iris-a", "container": "fetch", "message": message, **more}


def event(message: str, ago: float | None, count: int = 1) -> EventView:
    last = None if ago is None else NOW - timedelta(seconds=ago)
    return EventView("Pod", "iris-a", "Warning", "BackOff", message, count, last)


def marked(text: str) -> str:
    """The text with the names of its colours."""
    return re.sub(
        "\x1b\\[(\\d+)m(.*?)\x1b\\[0m", lambda found: f"<{Tone(found[1]).name} {found[2]}>", text
    )


CRASHING = (
    condition("WorkloadAvailable", "False", "CrashLoopBackOff", "exit code 3"),
    condition("Ready", "False", "CrashLoopBackOff", "exit code 3"),
    condition("UpToDate", "False", "RollingOut"),
)
SERVING = condition("Ready", "True", "Serving", "2 of 2 replicas serve")
REFUSED = condition("RouteAccepted", "False", "GatewayRefused", "no such listener")


def test_a_report_on_a_terminal_marks_the_causes_and_the_fixes() -> None:
    found = model(
        *CRASHING,
        namespace="models",
        lastFailure=failure("CrashLoopBackOff", "line 1\nline 2", exitCode=3),
        replicaStatuses=[replica("iris-b", "NewReason", "a device is lost")],
    )
    events = [event("second", 90, count=2), event("third", 30), event("first", None)]

    report = why(found, events, NOW, Palette(coloured=True))

    where = "WorkloadAvailable is False; container fetch of iris-a, exit code 3"
    lines = marked(report.text).splitlines()
    assert lines.pop(7).startswith("Fix: <UNSURE see the exit code")
    assert lines == [
        "models/iris <BAD is not ready>: CrashLoopBackOff",
        "",
        f"Cause: <HEAD CrashLoopBackOff> ({where})",
        "  exit code 3",
        "  Last log lines:",
        "    line 1",
        "    line 2",
        "",
        "Also: <HEAD NewReason> (replica iris-b)",
        "  a device is lost",
        "",
        "<HEAD Events>",
        "     ? BackOff Pod/iris-a: first",
        "   90s BackOff Pod/iris-a (2 times): second",
        "   30s BackOff Pod/iris-a: third",
    ]


def test_a_report_of_a_model_that_serves_has_notes() -> None:
    report = why(model(SERVING, REFUSED), [], NOW, Palette(coloured=True))

    lines = marked(report.text).splitlines()
    assert lines[:4] == [
        "iris <GOOD is ready>: Serving",
        "",
        "Note: <HEAD GatewayRefused> (RouteAccepted is False)",
        "  no such listener",
    ]
    assert report.ok


def test_a_report_without_causes_and_events_says_so() -> None:
    report = why(model(SERVING), [], NOW, PLAIN)

    assert report.text == "iris is ready: Serving\n\nNo problems found.\n"


def test_the_headline_has_the_reason_of_the_cause() -> None:
    ready = condition("Ready", "Unknown", "AwaitingAnswer")
    loads = condition("ModelReady", "False", "ModelLoading", lasted=700)

    assert why(model(loads, ready), [], NOW, PLAIN).text.startswith(
        "iris is not ready: ModelLoading\n"
    )
    assert why(model(ready), [], NOW, PLAIN).text.startswith("iris is not ready: AwaitingAnswer\n")


def test_the_document_says_what_the_report_shows() -> None:
    report = why(
        model(SERVING, REFUSED, namespace="models"),
        [event("again", None), event("first", 60, count=2)],
        NOW,
        PLAIN,
    )

    (cause,) = report.document.pop("causes")
    assert cause.pop("means")
    assert cause.pop("do")
    assert cause == {
        "where": "RouteAccepted is False",
        "reason": "GatewayRefused",
        "message": "no such listener",
        "log": "",
    }
    about = {"kind": "Pod", "name": "iris-a", "type": "Warning", "reason": "BackOff"}
    assert report.document == {
        "namespace": "models",
        "name": "iris",
        "ready": True,
        "reason": "Serving",
        "message": "2 of 2 replicas serve",
        "events": [
            {**about, "message": "again", "count": 1, "last": None},
            {**about, "message": "first", "count": 2, "last": "2026-01-01T11:59:00+00:00"},
        ],
    }
    assert report.names == ("iris",)


def test_a_model_without_a_status_has_one_cause() -> None:
    (found,) = causes(view({"metadata": {"name": "iris", "generation": 1}}), NOW)

    assert (found.where, found.reason) == ("status", "NotSeenYet")
    assert found.message == "the operator has not written a status yet"


def test_a_model_that_is_being_deleted_has_that_cause() -> None:
    (cause,) = causes(model(condition("Ready", "False", "Deleting", "it is being deleted")), NOW)

    assert (cause.reason, cause.message) == ("Deleting", "it is being deleted")
    assert "finalizers" in cause.means


def test_a_deletion_that_lasts_has_a_fix_other_than_waiting() -> None:
    ready = condition("Ready", "False", "Deleting", "it is being deleted", lasted=86_400)

    (cause,) = causes(model(ready), NOW)

    assert cause.do.startswith("it has lasted 24h: look for the controller of the finalizers")


def test_a_status_of_an_earlier_spec_is_the_only_cause() -> None:
    (found,) = causes(model(*CRASHING, generation=3), NOW)

    assert (found.where, found.reason) == ("status", "OfAnEarlierSpec")
    assert "generation 3 of the spec" in found.message
    assert "describes generation 2" in found.message


def test_a_rollout_that_only_waits_is_a_cause_if_there_is_no_other() -> None:
    rolling = condition("UpToDate", "False", "RollingOut", "one of two", lasted=600)
    loads = condition("ModelReady", "False", "ModelLoading", "it loads")
    failed = condition("UpToDate", "False", "RolledBack", "r2 was rolled back")

    def of(*conditions: Any) -> list[str]:
        return [each.reason for each in causes(model(*conditions), NOW)]

    assert of(SERVING, rolling) == ["RollingOut"]
    assert of(loads, rolling) == ["ModelLoading"]
    assert of(loads, failed) == ["ModelLoading", "RolledBack"]


@pytest.mark.parametrize(
    ("type_", "reason", "fix"),
    [
        ("UpToDate", "RollingOut", "check what the message and the events name"),
        ("RouteAccepted", "AwaitingGateway", "check that the Gateway exists, that"),
    ],
)
def test_a_rollout_or_a_route_that_lasts_has_another_fix_than_waiting(
    type_: str, reason: str, fix: str
) -> None:
    def of(lasted: float) -> str:
        (found,) = causes(model(SERVING, condition(type_, "False", reason, lasted=lasted)), NOW)
        return found.do

    assert of(599).startswith("wait; ")
    assert of(600).startswith(f"it has lasted 10m: {fix}")


def test_a_fix_other_than_waiting_is_right_from_the_start() -> None:
    crashes = condition("WorkloadAvailable", "False", "CrashLoopBackOff", lasted=3600)

    (found,) = causes(model(crashes), NOW)

    assert found.do.startswith("see the exit code")


def test_a_cause_names_the_pods_of_the_same_reason() -> None:
    replicas = [
        replica("iris-b", "CrashLoopBackOff", "exit code 3"),
        replica("iris-c", "CrashLoopBackOff", "exit code 4"),
        replica("iris-d", ""),
    ]

    (found,) = causes(model(*CRASHING, replicaStatuses=replicas), NOW)

    assert found.where == "WorkloadAvailable is False; replicas iris-b, iris-c"
    assert found.log == ""


def test_a_log_that_the_message_quotes_is_not_repeated() -> None:
    (found,) = causes(model(*CRASHING, lastFailure=failure("CrashLoopBackOff", "code 3")), NOW)

    assert (found.message, found.log) == ("exit code 3", "")


def test_a_cause_of_unknown_reason_has_its_log_and_no_fix() -> None:
    unknown = condition("WorkloadAvailable", "False", "NewReason", "new words")

    (found,) = causes(model(unknown, lastFailure=failure("NewReason", "a line")), NOW)

    assert (found.log, found.means, found.do) == ("a line", "", "")


def test_a_cause_that_repeats_an_earlier_message_is_left_out() -> None:
    replicas = [replica("iris-b", "NewReason", "exit code 3")]

    found = causes(model(*CRASHING, replicaStatuses=replicas), NOW)

    assert [each.reason for each in found] == ["CrashLoopBackOff"]


def test_every_replica_with_a_reason_of_its_own_is_a_cause_with_a_fix_for_the_model() -> None:
    found = causes(
        model(
            condition("ModelReady", "False", "ModelLoading", "it loads"),
            replicaStatuses=[
                replica("iris-b", "ModelNotFound", "no such model"),
                replica("iris-c", "AwaitingApproval", "stopped"),
                replica("iris-d", "AwaitingApproval", "stopped"),
            ],
            lastFailure=failure("RolloutPaused", "killed"),
        ),
        NOW,
    )

    assert [(each.where, each.reason, each.message) for each in found] == [
        ("ModelReady is False", "ModelLoading", "it loads"),
        ("replica iris-b", "ModelNotFound", "no such model"),
        ("replicas iris-c, iris-d", "AwaitingApproval", "stopped"),
        ("container fetch of iris-a", "RolloutPaused", "killed"),
    ]
    assert "moorage promote iris" in found[2].do
    assert " iris" in found[3].do
