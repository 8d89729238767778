"""ProtocolMatched and status.protocol."""

from dataclasses import replace

import pytest

from moorage_operator.values.answers import ANSWERED, Answer, AnswerReason, Spoken
from support.operator_values import (
    NOW,
    OIP,
    YES,
    condition,
    model,
    no,
    observed,
    planned,
    pod,
    said,
    serving,
    silence,
    unready,
    verdict,
)

TFS = Spoken("TensorFlowServing", "HTTP", 8000, "GET /v1/models/digits lists versions")
GRPC = Spoken("OpenInference", "GRPC", 8001, "ServerLive answers")
WRONG = Answer(None, AnswerReason.WRONG_PROTOCOL, "HTTP 404")
AUTO = {"protocol": "Auto", "runtime": {"image": "other:1"}}


def seen(of, answer, spoken):
    one = unready("p", of)
    return observed(one, probes=said(one, answer, spoken=spoken, consecutive_unknown=9))


@pytest.mark.parametrize("answer", [YES, no(AnswerReason.LOADING), no(AnswerReason.LOAD_FAILED)])
def test_any_answer_in_the_protocol_matches(answer):
    plan = planned(model(), seen(model(), answer, OIP))

    assert verdict(plan, "ProtocolMatched") == ("True", "ProtocolAnswered")
    message = condition(plan, "ProtocolMatched")["message"]
    assert message == "the server answers as OpenInference over HTTP"
    assert plan.status["protocol"] == {
        "declared": "OpenInference",
        "detected": "OpenInference",
        "evidence": OIP.evidence,
    }


@pytest.mark.parametrize(
    ("spec", "spoken", "reason", "words"),
    [
        ({}, TFS, "ProtocolMismatch", "set protocol to TensorFlowServing"),
        ({}, GRPC, "ProtocolMismatch", "on port 8001 (ServerLive answers): set transport to GRPC"),
        (
            {"protocol": "TensorFlowServing"},
            GRPC,
            "ProtocolMismatch",
            "set protocol to OpenInference and transport to GRPC",
        ),
        ({}, None, "ProtocolMismatch", "does not answer as OpenInference over HTTP: HTTP 404"),
        (AUTO, None, "NoProtocolAnswered", "over HTTP: HTTP 404"),
        (AUTO, GRPC, "NoProtocolAnswered", "set transport to GRPC"),
    ],
)
def test_a_mismatch_names_the_fields_to_change(spec, spoken, reason, words):
    of = model(**spec)

    plan = planned(of, seen(of, WRONG, spoken))

    assert verdict(plan, "ProtocolMatched") == ("False", reason)
    assert verdict(plan) == ("False", reason)
    assert verdict(plan, "ModelReady")[0] == "Unknown"
    assert words in condition(plan, "ProtocolMatched")["message"]
    assert plan.status["replicaStatuses"][0]["reason"] == reason
    assert plan.status["protocol"].get("detected") == (spoken.protocol if spoken else None)
    assert [event.reason for event in plan.events] == [reason]


def test_before_the_first_answer_another_cause_is_reported():
    plan = planned(model(), seen(model(), silence(AnswerReason.REFUSED), None))

    assert verdict(plan, "ProtocolMatched") == ("Unknown", "AwaitingAnswer")
    assert condition(plan, "ProtocolMatched")["message"] == "no server has answered yet"
    assert verdict(plan) == ("False", "ServerNotLive")
    assert plan.status["protocol"] == {"declared": "OpenInference"}


@pytest.mark.parametrize("spoken", [OIP, TFS])
def test_auto_has_the_url_of_the_detected_protocol(spoken):
    of = model(**AUTO)
    before = planned(of, observed(unready("p", of))).status
    found = planned(of, seen(of, YES, spoken)).status

    assert before["endpoints"] == []
    assert [item["protocol"] for item in found["endpoints"]] == [spoken.protocol]


@pytest.mark.parametrize("spec", [{}, AUTO, {"protocol": "GRPS"}])
@pytest.mark.parametrize(
    ("answer", "spoken"),
    [(YES, OIP), (WRONG, TFS), (WRONG, None), (no(AnswerReason.LOAD_FAILED, "bad file"), OIP)],
)
def test_a_restarted_operator_does_not_rewrite_the_protocol(spec, answer, spoken):
    of = model(**spec)
    facts = seen(of, answer, spoken)
    written = planned(of, facts).status

    restarted = planned(of, replace(facts, probes={}, status=written)).status

    for name in ("protocol", "endpoints"):
        assert restarted[name] == written[name]
    assert condition(restarted, "ProtocolMatched") == condition(written, "ProtocolMatched")


def test_a_restarted_server_keeps_its_detected_protocol():
    written = planned(model(), seen(model(), YES, OIP)).status
    down = replace(seen(model(), silence(AnswerReason.REFUSED), None), status=written)

    plan = planned(model(), down)

    assert verdict(plan, "ProtocolMatched") == ("True", "ProtocolAnswered")
    assert plan.status["protocol"] == written["protocol"]
    assert verdict(plan) == ("False", "ServerNotLive")


def test_an_edit_makes_the_protocol_unknown_until_a_server_has_answered():
    written = planned(model(), seen(model(), YES, OIP)).status
    of = model(generation=2, protocol="GRPS")
    one = unready("p", of)
    silent = said(one, silence(AnswerReason.REFUSED), spoken=None)

    plan = planned(of, observed(one, probes=silent, status=written))

    assert verdict(plan, "ProtocolMatched") == ("Unknown", "AwaitingAnswer")
    assert plan.status["protocol"] == {"declared": "GRPS"}


def test_an_edited_model_awaits_an_answer_even_if_its_protocol_stays():
    status = planned(model(), seen(model(), YES, OIP)).status
    of = model(generation=2, runtime={"env": [{"name": "A", "value": "1"}]})
    one = unready("p", of)
    silent = said(one, silence(AnswerReason.REFUSED), spoken=None)

    for _ in range(2):
        plan = planned(of, observed(one, probes=silent, status=status))
        status = plan.status
        assert verdict(plan, "ProtocolMatched") == ("Unknown", "AwaitingAnswer")


def evidence_after(before, now):
    """The evidence in the status after an answer with one and then with another evidence."""
    found = [replace(OIP, evidence=each) for each in (before, now)]
    status = planned(model(), seen(model(), YES, found[0])).status
    return planned(model(), replace(seen(model(), YES, found[1]), status=status)).status[
        "protocol"
    ]["evidence"]


def test_evidence_is_replaced_only_by_other_evidence():
    assert evidence_after("GET /v2 answers", ANSWERED) == "GET /v2 answers"
    assert evidence_after("GET /v2 answers", "ServerLive answers") == "ServerLive answers"
    assert evidence_after(ANSWERED, "GET /v2 answers") == "GET /v2 answers"
    assert evidence_after(ANSWERED, ANSWERED) == ANSWERED


def test_a_detected_protocol_without_evidence_is_kept_until_there_is_some():
    detected = {"declared": "OpenInference", "detected": "OpenInference"}
    of = model()
    facts = {"status": {"protocol": detected}}

    silent = planned(of, serving(of, probes={}, **facts)).status
    answered = replace(seen(of, YES, replace(OIP, evidence=ANSWERED)), **facts)

    assert silent["protocol"] == {**detected, "evidence": ""}
    assert planned(of, answered).status["protocol"] == {**detected, "evidence": ANSWERED}


def test_a_server_that_changes_its_protocol_is_detected():
    written = planned(model(), seen(model(), YES, OIP)).status

    plan = planned(model(), replace(seen(model(), WRONG, None), status=written))

    assert plan.status["protocol"] == {"declared": "OpenInference"}


def test_a_status_without_protocols_stays_ready():
    of = model(generation=2)
    written = planned(of, serving(of)).status
    old = {key: value for key, value in written.items() if key != "protocol"}
    old["conditions"] = [c for c in old["conditions"] if c["type"] != "ProtocolMatched"]

    plan = planned(of, serving(of, probes={}, status=old), NOW)

    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "ProtocolMatched") == ("True", "ProtocolAnswered")
    assert "as OpenInference over" in condition(plan, "ProtocolMatched")["message"]


def test_the_serving_replica_determines_the_protocol():
    of = model(replicas=2)
    first, second = unready("a", of), pod("b", of)
    facts = observed(
        first,
        second,
        probes={**said(first, WRONG, spoken=TFS), **said(second)},
    )

    assert planned(of, facts).status["protocol"]["detected"] == "OpenInference"


OWN_PATH = {"runtime": {"image": "other:1"}, "paths": {"modelReady": "/healthz"}}


def test_readiness_at_a_custom_path_proves_no_protocol_and_has_no_url():
    of = model(**OWN_PATH)
    one = pod("p", of)

    plan = planned(of, observed(one, probes=said(one, YES, spoken=None)))

    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "ProtocolMatched") == ("Unknown", "AwaitingAnswer")
    assert "at /healthz" in condition(plan, "ProtocolMatched")["message"]
    assert plan.status["protocol"] == {"declared": "OpenInference"}
    assert plan.status["endpoints"] == []

    restarted = planned(of, observed(one, status=plan.status))
    assert restarted.status == plan.status


def test_a_replica_that_is_ready_at_a_custom_path_does_not_hide_another_protocol():
    of = model(replicas=2, **OWN_PATH)
    good, foreign = pod("a", of), pod("b", of)
    probes = {**said(good, YES, spoken=None), **said(foreign, WRONG, spoken=None)}

    plan = planned(of, observed(good, foreign, probes=probes))

    assert verdict(plan) == verdict(plan, "ProtocolMatched") == ("False", "ProtocolMismatch")


def test_a_server_with_custom_paths_and_a_proved_protocol_has_a_url():
    of = model(**OWN_PATH)
    one = pod("p", of)

    plan = planned(of, observed(one, probes=said(one, YES, spoken=OIP)))

    assert verdict(plan, "ProtocolMatched") == ("True", "ProtocolAnswered")
    assert plan.status["endpoints"][0]["url"].endswith("/v2/models/digits/infer")

    restarted = planned(of, observed(one, status=plan.status))
    assert restarted.status == plan.status


def test_the_target_of_a_custom_path_is_marked():
    of, other = model(**OWN_PATH), model(runtime={"image": "other:1"})

    assert planned(of, observed(pod("p", of))).targets[0].own_path
    assert not planned(other, observed(pod("p", other))).targets[0].own_path
