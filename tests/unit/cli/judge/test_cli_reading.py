"""Parsing a resource, and its presentation on a terminal."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_cli.judge.model_view import moment, view
from moorage_cli.judge.status import StatusChanges, progress, status_of_many, status_of_one
from moorage_cli.judge.why import AWAITED_REASONS, EventView, causes, why
from moorage_cli.printing.sanitizing import clean, clean_document, clean_lines
from moorage_cli.printing.tables import Cell, Palette, Tone, age, render, shorten
from moorage_operator.api.conditions import Reason
from moorage_operator.api.reasons import Trait, has

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAIN = Palette(coloured=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
)


def condition(type_, status, reason, message="", generation=2):
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T11:55:00Z",
    }


def resource(*conditions, observed=2, **status):
    return {
        "metadata": {
            "name": "iris",
            "namespace": "models",
            "generation": 2,
            "creationTimestamp": "2026-01-01T09:00:00Z",
        },
        "spec": {"model": {"name": "Iris.v2"}},
        "status": {"observedGeneration": observed, "conditions": list(conditions), **status},
    }


SERVING = resource(
    condition("Accepted", "True", "Valid"),
    condition("WorkloadAvailable", "True", "MinimumReplicasAvailable"),
    condition("ProtocolMatched", "True", "ProtocolAnswered"),
    condition("ModelReady", "True", "AllReplicasReady"),
    condition("Ready", "True", "Serving", "2 of 2 replicas serve"),
    condition("UpToDate", "True", "RolloutComplete"),
    replicaSummary="2/2",
    versionSummary="1,2",
    model={"name": "Iris.v2"},
    protocol={"detected": "OpenInference"},
)
CRASHING = resource(
    condition("Accepted", "True", "Valid"),
    condition("WorkloadAvailable", "False", "CrashLoopBackOff", "exit code 3"),
    condition("ProtocolMatched", "Unknown", "AwaitingAnswer", "no server has answered yet"),
    condition("ModelReady", "False", "ServerNotLive", "nothing runs"),
    condition("Ready", "False", "CrashLoopBackOff", "exit code 3"),
    condition("UpToDate", "False", "RollingOut", "exit code 3"),
    replicaSummary="0/2",
    replicaStatuses=[
        {"pod": "iris-a", "reason": "CrashLoopBackOff", "message": "exit code 3", "restarts": 4},
        {"pod": "iris-b", "reason": "CrashLoopBackOff", "message": "exit code 3", "restarts": 5},
        {"pod": "iris-c", "ready": True, "modelReady": True, "restarts": 0},
    ],
    lastFailure={
        "reason": "CrashLoopBackOff",
        "pod": "iris-a",
        "container": "runtime",
        "exitCode": 3,
        "message": "loading\nno such file: /mnt/models",
    },
)


@pytest.mark.parametrize(
    ("given_resource", "expected"),
    [
        (SERVING, "4/4"),
        (CRASHING, "1/4 WorkloadAvailable"),
        (resource(condition("Accepted", "False", "InvalidSpec")), "0/1 Accepted"),
        (resource(condition("Accepted", "True", "Valid", generation=1)), "0/1 Accepted"),
        (resource(), ""),
        ({}, ""),
    ],
)
def test_progress_counts_the_true_conditions_of_the_current_spec(given_resource, expected):
    assert progress(view(given_resource)) == expected


def test_the_table_has_kubectls_columns_and_progress():
    report = status_of_many([view(SERVING), view(CRASHING)], NOW, PLAIN, namespaces=True)

    lines = [" ".join(line.split()) for line in report.text.splitlines()]
    assert lines == [
        "NAMESPACE NAME READY PROGRESS REPLICAS MODEL VERSION PROTOCOL REASON AGE",
        "models iris True 4/4 2/2 Iris.v2 1,2 OpenInference Serving 3h",
        "models iris False 1/4 WorkloadAvailable 0/2 Iris.v2 - - CrashLoopBackOff 3h",
    ]
    assert not report.ok


def test_a_watch_prints_its_head_once_until_a_column_grows():
    serving, crashing = view(SERVING), view(CRASHING)
    changes = StatusChanges(PLAIN, namespaces=True)

    first = changes.listed([serving], NOW).text
    second = changes.put(crashing, NOW).text
    third = changes.put(serving, NOW).text

    assert [text.startswith("NAMESPACE") for text in (first, second, third)] == [True, True, False]
    assert second.splitlines()[0].index("REASON") == third.index("Serving")


def test_a_watch_repeats_neither_a_row_nor_a_document():
    model = view(SERVING)
    changes = StatusChanges(PLAIN, namespaces=False)
    changes.put(model, NOW)

    later = changes.put(model, NOW + timedelta(hours=9))
    other = changes.put(replace(model, external_url="https://iris.example.com"), NOW)

    assert (later.text, later.document) == ("", [])
    assert (other.text, len(other.document)) == ("", 1)


def test_a_watch_shows_a_model_that_is_missing_from_a_later_list_as_deleted():
    changes = StatusChanges(PLAIN, namespaces=True)
    changes.listed([view(SERVING)], NOW)

    report = changes.listed([], NOW)

    assert report.text.split() == ["models", "iris", *["-"] * 6, "Deleted", "-"]
    assert changes.deleted(view(SERVING)).document == []
    assert changes.put(view(SERVING), NOW).text.split()[:3] == ["models", "iris", "True"]


def test_a_server_without_a_protocol_has_no_model_name():
    unknown = {**SERVING, "spec": {"protocol": "None"}, "status": {"protocol": {}}}
    known = {**unknown, "spec": {"protocol": "OpenAI"}}

    assert view(unknown).served_name == ""
    assert view(known).served_name == "iris"


def test_a_status_of_an_earlier_spec_is_not_ready():
    model = view({**SERVING, "metadata": {**SERVING["metadata"], "generation": 3}})
    report = status_of_one(model, NOW, PLAIN)

    assert not report.ok
    assert "Unknown" in report.text.splitlines()[1]
    assert "generation 2" in report.text


@pytest.mark.parametrize(("models", "ok"), [([], True), ([SERVING], True), ([CRASHING], False)])
def test_a_list_is_ok_if_every_model_is_ready(models, ok):
    report = status_of_many([view(item) for item in models], NOW, PLAIN, namespaces=False)

    assert report.ok is ok
    assert len(report.document) == len(report.names) == len(models)


def test_the_status_of_one_model_has_its_conditions_and_replicas():
    report = status_of_one(view(CRASHING), NOW, PLAIN)

    lines = [line.split() for line in report.text.splitlines()]
    assert ["Accepted", "True", "Valid", "5m", "-"] in lines
    assert ["iris-a", "no", "-", "4", "CrashLoopBackOff", "exit", "code", "3"] in lines
    assert ["iris-c", "yes", "-", "0", "-", "-"] in lines


def test_the_root_cause_is_stated_once_with_its_pods_log_and_fix():
    (cause,) = causes(view(CRASHING), NOW)

    assert cause.reason == "CrashLoopBackOff"
    assert cause.where == ("WorkloadAvailable is False; container runtime of iris-a, exit code 3")
    assert cause.log == "loading\nno such file: /mnt/models"
    assert "exit code" in cause.do


def test_a_missing_answer_is_not_the_cause_if_another_condition_explains_it():
    awaited = condition(
        "ProtocolMatched", "Unknown", "AwaitingAnswer", "no server has answered yet"
    )
    refused = condition("ModelReady", "False", "CertificateNotTrusted", "it is self-signed")
    available = condition("WorkloadAvailable", "True", "MinimumReplicasAvailable")

    explained = causes(view(resource(available, awaited, refused)), NOW)
    unexplained = causes(view(resource(available, awaited)), NOW)

    assert [cause.reason for cause in explained] == ["CertificateNotTrusted"]
    assert [cause.reason for cause in unexplained] == ["AwaitingAnswer"]


def test_the_reasons_of_a_missing_answer_are_those_of_the_operator():
    assert {str(reason) for reason in Reason if has(reason, Trait.AWAITED)} == AWAITED_REASONS


def test_an_independent_cause_follows_the_root_cause():
    failure = {"reason": "OOMKilled", "pod": "iris-b", "container": "fetch", "message": "killed"}
    replicas = [
        {"pod": "iris-a", "reason": "CrashLoopBackOff", "message": "exit code 3"},
        {"pod": "iris-b", "reason": "Unschedulable", "message": "no node has a GPU"},
    ]
    status = {**CRASHING["status"], "lastFailure": failure, "replicaStatuses": replicas}
    found = causes(view({**CRASHING, "status": status}), NOW)

    assert [cause.reason for cause in found] == ["CrashLoopBackOff", "Unschedulable", "OOMKilled"]
    assert "iris-b" in found[1].where


def test_a_rolled_back_spec_is_the_cause_of_a_serving_model():
    status = {**SERVING["status"]}
    status["conditions"] = [
        *status["conditions"][:-1],
        condition("UpToDate", "False", "RolledBack", "revision b was rolled back"),
    ]
    (cause,) = causes(view({**SERVING, "status": status}), NOW)

    assert cause.reason == "RolledBack"


@pytest.mark.parametrize("type_", ["Paused", "RuntimeUpdatePending"])
def test_what_holds_back_a_serving_model_is_a_note(type_):
    reason = {"Paused": "PausedBySpec", "RuntimeUpdatePending": "RuntimeChanged"}[type_]
    held = condition(type_, "True", reason, "the InferenceRuntime 'triton' was edited")
    status = {**SERVING["status"], "conditions": [*SERVING["status"]["conditions"], held]}

    report = why(view({**SERVING, "status": status}), [], NOW, PLAIN)

    assert report.ok
    assert f"Note: {reason} ({type_} is True)" in report.text
    assert "the InferenceRuntime 'triton' was edited" in report.text


def test_the_commands_of_a_fix_name_the_model():
    conditions = SERVING["status"]["conditions"]
    paused = condition("Paused", "True", "Paused", "the operator writes nothing")
    waiting = condition("UpToDate", "False", "AwaitingApproval", "20 percent")
    status = {**SERVING["status"], "conditions": [*conditions[:-1], waiting, paused]}

    fixes = [cause.do for cause in causes(view({**SERVING, "status": status}), NOW)]

    assert fixes == [
        "check the canary, then run moorage promote iris or moorage abort iris",
        "run moorage resume iris, or set paused to false",
    ]


@pytest.mark.parametrize(
    ("type_", "reason", "fix"),
    [
        ("RouteAccepted", "GatewayRefused", "allowedRoutes"),
        ("ScalingActive", "AutoscalerFailing", "metrics-server"),
    ],
)
@pytest.mark.parametrize(
    ("state", "is_noted"), [("False", True), ("Unknown", True), ("True", False)]
)
def test_a_route_or_an_autoscaler_that_does_not_work_is_a_note(
    type_, reason, fix, state, is_noted
):
    conditions = SERVING["status"]["conditions"]
    beside = condition(type_, state, reason, "the message of another controller")
    status = {**SERVING["status"], "conditions": [*conditions, beside]}

    found = causes(view({**SERVING, "status": status}), NOW)

    assert [cause.reason for cause in found] == ([reason] if is_noted else [])
    assert all(fix in cause.do for cause in found)


def test_the_status_of_one_model_has_its_url_outside_the_cluster():
    exposed = {**SERVING, "status": {**SERVING["status"], "url": "https://iris.example.com"}}

    report = status_of_one(view(exposed), NOW, PLAIN)

    assert "https://iris.example.com" in report.text
    assert report.document["externalUrl"] == "https://iris.example.com"
    assert "outside" not in status_of_one(view(SERVING), NOW, PLAIN).text


def test_a_status_of_an_earlier_spec_is_the_only_cause():
    stale = {**CRASHING, "metadata": {**CRASHING["metadata"], "generation": 3}}
    (cause,) = causes(view(stale), NOW)

    assert "generation 3" in cause.message
    assert "operator" in cause.do


@pytest.mark.parametrize(("hours", "waits"), [(0, True), (2, False)])
def test_waiting_is_the_fix_only_for_a_short_time(hours, waits):
    pending = resource(
        condition("Accepted", "True", "Valid"),
        condition("WorkloadAvailable", "False", "Pending", "the volume is attached"),
    )
    (cause,) = causes(view(pending), NOW + timedelta(hours=hours))

    assert cause.do.startswith("wait") is waits
    assert cause.do


def test_a_resolved_failure_is_not_a_cause():
    failure = {**CRASHING["status"]["lastFailure"], "resolvedTime": "2026-01-01T11:00:00Z"}
    mended = {**SERVING, "status": {**SERVING["status"], "lastFailure": failure}}

    assert causes(view(mended), NOW) == []
    assert "No problems found." in why(view(mended), [], NOW, PLAIN).text


def test_a_model_without_a_status_points_to_the_operator():
    (cause,) = causes(view({"metadata": {"name": "iris", "generation": 1}}), NOW)

    assert cause.reason == "NotSeenYet"
    assert "operator" in cause.do


def test_why_prints_the_cause_the_log_the_fix_and_the_last_events():
    events = [
        EventView("Pod", "iris-a", "Warning", "BackOff", f"number {at}", at, NOW - timedelta(at))
        for at in range(1, 13)
    ]
    report = why(view(CRASHING), events, NOW, PLAIN)

    assert report.text.startswith("models/iris is not ready: CrashLoopBackOff\n")
    assert report.text.count("exit code 3\n") == 1
    assert "    loading\n    no such file: /mnt/models\n" in report.text
    assert report.text.count("Fix: ") == 1
    printed = [line for line in report.text.splitlines() if "BackOff Pod/iris-a" in line]
    assert len(printed) == 10
    assert printed[-1].endswith("number 1")
    assert report.document["causes"][0]["reason"] == "CrashLoopBackOff"
    assert not report.ok


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("a\x1b[31mb", "a\ufffd[31mb"),
        ("a\r\nb\tc", "a b c"),
        ("\u202egpj.exe", "\ufffdgpj.exe"),
        ("\x9b31m", "\ufffd31m"),
        ("\ud800", "\ufffd"),
    ],
)
def test_control_characters_of_a_server_are_replaced(text, expected):
    assert clean(text) == expected


def test_lines_stay_lines():
    assert clean_lines("a\x00\n b\n\n") == ["a\ufffd", "b"]


@given(JSON)
def test_a_document_keeps_its_structure_without_control_characters(value):
    cleaned = clean_document(value)

    assert type(cleaned) is type(value)
    assert "\x1b" not in str(cleaned)
    str(cleaned).encode()


@given(JSON)
def test_any_resource_can_be_printed(value):
    model = view({"metadata": value, "spec": value, "status": value} if value else {})

    assert status_of_one(model, NOW, PLAIN).text
    assert why(model, [], NOW, PLAIN).text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7199, "119m"),
        (7200, "2h"),
        (1e6, "11d"),
    ],
)
def test_an_age_is_in_its_largest_unit(seconds, expected):
    assert age(seconds) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T01:00:00.5+01:00", datetime(2026, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)),
        ("yesterday", None),
        (None, None),
        (5, None),
    ],
)
def test_an_invalid_time_is_none(text, expected):
    assert moment(text) == expected


def test_colours_do_not_change_the_width_of_columns():
    rows = [[Cell("aaaa", Tone.GOOD), Cell("x")], [Cell("b"), Cell("")]]

    assert render(("A", "B"), rows, PLAIN) == "A      B\naaaa   x\nb      -\n"
    assert "\x1b[32maaaa\x1b[0m   x\n" in render(("A", "B"), rows, Palette(coloured=True))


def test_a_long_text_is_cut():
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"
