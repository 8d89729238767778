"""plan() for servers without tensors: what the status claims, and what it does not."""

from dataclasses import replace

import pytest

from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, Spoken
from support.operator_values import (
    condition,
    model,
    no,
    observed,
    planned,
    pod,
    said,
    unready,
    verdict,
)

OPENAI = model(protocol="OpenAI", runtime={"image": "vllm:1"}, model={"name": "llama"})
PLAIN = model(
    protocol="None", runtime={"image": "bento:1"}, paths={"ready": "/readyz"},
    smokeTests={"tests": [{"name": "t", "request": {"path": "/p", "body": {}}}]},
)  # fmt: skip
LISTED = Spoken("OpenAI", "HTTP", 8000, "GET /v1/models answers with a list of models")
UNKNOWN = Spoken("None", "HTTP", 8000, "it answers for the model")
INFO = ModelInfo("llama", platform="vllm", context_length=4096)


def test_openai_has_the_models_name_and_context_length_and_no_tensors():
    one = pod("p", OPENAI, gated=True, gate_open=True)
    probes = said(one, spoken=LISTED, server=None, model=INFO)

    status = planned(OPENAI, observed(one, probes=probes)).status

    assert verdict(planned(OPENAI, observed(one, probes=probes))) == ("True", "Serving")
    assert status["model"]["name"] == "llama"
    assert status["model"]["platform"] == "vllm"
    assert status["model"]["contextLength"] == 4096
    assert (status["model"]["inputs"], status["model"]["outputs"]) == ([], [])
    assert status["versionSummary"] == ""
    assert "server" not in status
    assert status["protocol"] == {
        "declared": "OpenAI", "detected": "OpenAI", "evidence": LISTED.evidence,
    }  # fmt: skip
    (endpoint,) = status["endpoints"]
    assert endpoint["url"] == "http://digits.ns.svc.cluster.local:8000/v1"


def test_a_context_length_is_part_of_the_metadata_and_absent_if_untold():
    one = pod("p", OPENAI, gated=True, gate_open=True)

    def metadata_of(info):
        probes = said(one, spoken=LISTED, server=None, model=info)
        return planned(OPENAI, observed(one, probes=probes)).status["model"]

    told, untold = metadata_of(INFO), metadata_of(replace(INFO, context_length=None))

    assert "contextLength" not in untold
    assert told["metadataHash"] != untold["metadataHash"]


def test_detected_openai_has_its_url_and_cannot_be_compared_with_a_contract():
    of = model(
        protocol="Auto", runtime={"image": "vllm:1"}, contract={"inputs": [{"name": "image"}]}
    )
    one = pod("p", of, gated=True, gate_open=True)
    probes = said(one, spoken=LISTED, server=None, model=INFO, described=True)

    plan = planned(of, observed(one, probes=probes))

    assert plan.status["endpoints"][0]["url"].endswith(":8000/v1")
    assert verdict(plan, "MetadataMatched") == ("Unknown", "MetadataUnsupported")


def test_without_a_protocol_nothing_is_claimed_of_the_model():
    one = pod("p", PLAIN)
    probes = said(one, spoken=UNKNOWN, server=None, model=None)

    plan = planned(PLAIN, observed(one, probes=probes))

    status = plan.status
    assert verdict(plan) == ("True", "Serving")
    for absent in ("model", "versionSummary", "server"):
        assert absent not in status
    assert status["protocol"] == {"declared": "None"}
    types = [item["type"] for item in status["conditions"]]
    assert "ProtocolMatched" not in types
    assert "MetadataMatched" not in types
    assert condition(plan, "ModelReady")["message"] == "the server is ready on 1 of 1 replicas"
    assert status["endpoints"] == [
        {
            "protocol": "None",
            "transport": "HTTP",
            "url": "http://digits.ns.svc.cluster.local:8000",
        }
    ]


def test_metadata_of_an_earlier_protocol_is_dropped():
    before = model(runtime={"image": "bento:1"})
    old = planned(before, observed(pod("p", before), probes=said(pod("p", before)))).status
    one = pod("p", PLAIN)

    status = planned(PLAIN, observed(one, probes=said(one, spoken=UNKNOWN), status=old)).status

    assert "model" in old
    assert not {"model", "versionSummary", "server"} & set(status)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (no(AnswerReason.NOT_READY, "HTTP 503 from /readyz"), "ModelLoading"),
        (Answer(None, AnswerReason.REFUSED, "cannot connect"), "ServerNotLive"),
        (Answer(None, AnswerReason.TIMED_OUT, "no answer"), "ProbeTimeout"),
    ],
)
def test_messages_without_a_protocol_are_about_the_server(answer, reason):
    one = unready("p", PLAIN)

    plan = planned(PLAIN, observed(one, probes=said(one, answer, spoken=None, model=None)))

    message = condition(plan, "ModelReady")["message"]
    assert condition(plan, "ModelReady")["reason"] == reason
    assert "the server" in message
    assert answer.message in message
    assert "digits" not in message


def test_a_restarted_operator_writes_nothing_before_its_first_poll():
    for of, spoken, info in ((OPENAI, LISTED, INFO), (PLAIN, UNKNOWN, None)):
        one = pod("p", of, gated=of is OPENAI, gate_open=True if of is OPENAI else None)
        probes = said(one, spoken=spoken, server=None, model=info)
        first = planned(of, observed(one, probes=probes)).status

        again = planned(of, observed(one, status=first)).status

        assert again == first
