"""What answers of secured servers mean for conditions, gates and targets."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo
from moorage_operator.values.plan import Access
from moorage_operator.values.smoke import SmokeOutcome, SmokeVerdict
from support.operator_values import (
    YES,
    condition,
    model,
    observed,
    planned,
    pod,
    said,
    serving,
    verdict,
)

TLS: dict[str, Any] = {"tls": {"secretName": "iris-tls"}}
CONTRACT = {"inputs": [{"name": "x"}]}
ONE = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}
TESTED = {"tests": [{"name": "t", "inputs": [ONE]}]}


def answered(of: InferenceModel, answer: Answer, times: int = 3, **facts: Any) -> Any:
    """A model whose ready pod answers this, so many times in a row."""
    of_pod = pod("p0", of, **facts)
    return observed(of_pod, probes=said(of_pod, answer, consecutive_unknown=times))


@pytest.mark.parametrize(
    ("answer", "reason", "sentence"),
    [
        (
            Answer(None, AnswerReason.NOT_TRUSTED, "the certificate has expired"),
            "CertificateNotTrusted",
            "pod p0: its TLS certificate is not accepted: the certificate has expired",
        ),
        (
            Answer(None, AnswerReason.TLS_MISMATCH, "it answers in plaintext"),
            "TLSMismatch",
            "pod p0: TLS does not fit the spec: it answers in plaintext",
        ),
        (
            Answer(verdict=False, reason=AnswerReason.UNAUTHORIZED, message="HTTP 401"),
            "Unauthorized",
            "pod p0: the server requires a token: HTTP 401",
        ),
    ],
)
def test_each_answer_has_its_reason(answer: Answer, reason: str, sentence: str) -> None:
    of = model(**TLS)

    plan = planned(of, answered(of, answer))

    assert verdict(plan, "ModelReady") == ("False", reason)
    assert verdict(plan) == ("False", reason)
    assert condition(plan, "ModelReady")["message"].startswith(sentence)
    assert "service mesh" not in condition(plan, "ModelReady")["message"]


def test_a_protocol_without_an_open_path_says_why_readiness_needs_a_token() -> None:
    of = model(access={"tokenSecretName": "t"}, protocol="GRPS")

    plan = planned(of, answered(of, Answer(verdict=False, reason=AnswerReason.UNAUTHORIZED)))

    assert condition(plan, "ModelReady")["message"].startswith(
        "pod p0: the server requires a token even for readiness: protocol GRPS has no open path"
    )


@pytest.mark.parametrize(
    ("reason", "stays"),
    [(AnswerReason.NOT_TRUSTED, True), (AnswerReason.TLS_MISMATCH, False)],
)
def test_only_a_certificate_leaves_the_gate_open(reason: AnswerReason, stays: bool) -> None:
    of = model(**TLS, runtime={"image": "other:1"}, transport="GRPC")

    plan = planned(of, answered(of, Answer(None, reason), gated=True, gate_open=True))

    assert [each.is_open for each in plan.gates] == ([] if stays else [False])


def test_a_refusal_that_passes_leaves_the_model_ready() -> None:
    of = model(**TLS)
    before = planned(of, serving(of)).status

    seen = answered(of, Answer(None, AnswerReason.NOT_TRUSTED), times=2)
    plan = planned(of, replace(seen, status=before))

    assert verdict(plan) == ("True", "Serving")


def test_metadata_that_needs_a_token_is_not_a_difference() -> None:
    of = model(contract=CONTRACT, access={"tokenSecretName": "t"})
    of_pod = pod("p", of)
    facts = {"described": True, "unauthorized": "HTTP 401 from /v2: grant it", "model": None}
    seen = observed(of_pod, probes=said(of_pod, YES, **facts))

    plan = planned(of, seen)

    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "MetadataMatched") == ("Unknown", "MetadataUnauthorized")
    expected = "pod p: the metadata is not compared: HTTP 401 from /v2: grant it"
    assert condition(plan, "MetadataMatched")["message"] == expected


def test_known_metadata_is_compared_even_if_the_last_query_was_refused() -> None:
    of = model(contract=CONTRACT, access={"tokenSecretName": "t"})
    of_pod = pod("p", of)
    facts = {"described": True, "unauthorized": "HTTP 401", "model": ModelInfo("iris")}

    plan = planned(of, observed(of_pod, probes=said(of_pod, YES, **facts)))

    assert verdict(plan, "MetadataMatched")[1] == "MetadataUnsupported"


def test_smoke_tests_that_need_a_token_have_not_failed() -> None:
    of = model(smokeTests=TESTED, access={"tokenSecretName": "t"})
    of_pod = pod("p", of)
    outcome = SmokeOutcome(of.smoke_digest, SmokeVerdict.REQUEST_UNAUTHORIZED, "HTTP 401")

    plan = planned(of, observed(of_pod, probes=said(of_pod, YES, smoke=outcome)))

    assert verdict(plan, "SmokeTestPassed") == ("Unknown", "RequestUnauthorized")


@pytest.mark.parametrize(
    ("spec", "access"),
    [
        ({}, None),
        (TLS, Access("ns", "iris-tls", "digits.ns.svc")),
        (
            {"tls": {"secretName": "a", "serverName": "b.c"}},
            Access("ns", "a", "b.c"),
        ),
        ({"access": {"tokenSecretName": "t"}}, Access("ns", token_secret="t")),
        (
            {**TLS, "access": {"tokenSecretName": "t"}},
            Access("ns", "iris-tls", "digits.ns.svc", "t"),
        ),
    ],
)
def test_targets_have_the_names_of_the_secrets(
    spec: dict[str, Any], access: Access | None
) -> None:
    of = model(**spec)

    (target,) = planned(of, serving(of)).targets

    assert target.access == access
