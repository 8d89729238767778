"""Smoke tests in JSON: what parse() accepts, and what it says about the rest."""

from typing import Any

import pytest

from moorage_operator.api.json_tests import Expectation, JsonRequest, Method
from moorage_operator.api.v1alpha1 import parse
from support.operator_values import body

TENSOR = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}
CHAT: dict[str, Any] = {"model": "llama", "messages": [{"role": "user", "content": "Hi"}]}


def openai(*tests: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A spec for a server with OpenAI's API."""
    named = [{"name": f"t{at}", **test} for at, test in enumerate(tests)]
    image = {"runtime": {"image": "vllm:1"}}
    return body(**{"protocol": "OpenAI", **image, "smokeTests": {"tests": named}, **spec})


def plain(**spec: Any) -> dict[str, Any]:
    """A spec for a server without a protocol."""
    image = {"runtime": {"image": "bento:1"}}
    return body(**{"protocol": "None", **image, "paths": {"ready": "/readyz"}, **spec})


def problems(resource: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in parse(resource).problems]


def test_a_request_has_its_defaults():
    (test,) = parse(openai({"request": {"body": CHAT}})).smoke_tests.tests

    assert test.request == JsonRequest(path="", method=Method.POST, body=CHAT)
    assert test.expect == ()
    assert test.inputs == ()


def test_expectations_keep_their_order_and_values():
    expect = [
        {"jsonPath": "a", "value": False},
        {"jsonPath": "b[0]", "value": 0.5},
        {"jsonPath": "c", "pattern": "x+"},
        {"jsonPath": "d", "exists": False},
    ]

    (test,) = parse(openai({"request": {"body": {}}, "expect": expect})).smoke_tests.tests

    assert test.expect == (
        Expectation("a", value=False),
        Expectation("b[0]", value=0.5),
        Expectation("c", pattern="x+"),
        Expectation("d", exists=False),
    )


DEEP: dict[str, Any] = {}
for _ in range(40):
    DEEP = {"a": DEEP}

WRONG = [
    ({}, "smokeTests.tests[0]", "neither inputs nor request"),
    (
        {"inputs": [TENSOR], "request": {"body": {}}},
        "smokeTests.tests[0]",
        "both inputs and request",
    ),
    ({"request": {"body": {}}, "outputs": [{"name": "y", "data": [1]}]}, "outputs", "use expect"),
    ({"request": {}}, "request.body", "is required"),
    ({"request": {"method": "GET", "body": {}}}, "request.body", "no effect with method GET"),
    ({"request": {"method": "PUT", "body": {}}}, "request.method", "'PUT'"),
    ({"request": {"body": [1]}}, "request.body", "[1]"),
    ({"request": {"body": {"stream": True}}}, "request.body.stream", "True is invalid"),
    ({"request": {"body": {"x": "y" * 70_000}}}, "request.body", "at most 65536"),
    ({"request": {"body": DEEP}}, "request.body", "32 levels"),
    ({"request": {"body": {}, "path": "v1"}}, "request.path", "'v1'"),
    ({"request": {"body": {}, "headers": {}}}, "request.headers", "does not know this field"),
]


@pytest.mark.parametrize(("test", "path", "said"), WRONG)
def test_a_wrong_test_is_rejected_with_its_field_and_value(test, path, said):
    found = problems(openai(test))

    assert any(path in each and said in each for each in found), found


WRONG_EXPECTATIONS = [
    ({"jsonPath": "a"}, "expect[0]", "exactly one of value, pattern, exists"),
    ({"jsonPath": "a", "value": 1, "exists": True}, "expect[0]", "value and exists"),
    ({"value": 1}, "jsonPath", "is required"),
    ({"jsonPath": "a[*]", "value": 1}, "jsonPath", "'a[*]'"),
    ({"jsonPath": "a", "value": [1]}, "value", "[1]"),
    ({"jsonPath": "a", "value": "x" * 4097}, "value", "4096"),
    ({"jsonPath": "a", "pattern": "(?=a)"}, "pattern", "(?="),
    ({"jsonPath": "a", "pattern": "x" * 257}, "pattern", "256"),
    ({"jsonPath": "a", "exists": "yes"}, "exists", "'yes'"),
]


@pytest.mark.parametrize(("expectation", "path", "said"), WRONG_EXPECTATIONS)
def test_a_wrong_expectation_is_rejected_with_its_field_and_value(expectation, path, said):
    found = problems(openai({"request": {"body": {}}, "expect": [expectation]}))

    assert any(path in each and said in each for each in found), found


def test_expect_goes_with_a_request():
    test = {"inputs": [TENSOR], "expect": [{"jsonPath": "a", "exists": True}]}

    found = problems(body(smokeTests={"tests": [{"name": "t", **test}]}))

    assert [each.split(":")[0] for each in found] == ["spec.smokeTests.tests[0].expect"]


def test_too_many_expectations_are_rejected():
    many = [{"jsonPath": "a", "exists": True}] * 33

    assert "at most 32" in problems(openai({"request": {"body": {}}, "expect": many}))[0]


def test_every_edit_of_a_test_changes_the_digest():
    tests: list[dict[str, Any]] = [
        {"request": {"body": {}}},
        {"request": {"body": {"a": 1}}},
        {"request": {"path": "/p", "body": {}}},
        {"request": {"path": "/p", "method": "GET"}},
        {"request": {"body": {}}, "expect": [{"jsonPath": "a", "value": 1}]},
        {"request": {"body": {}}, "expect": [{"jsonPath": "a", "value": "1"}]},
        {"request": {"body": {}}, "expect": [{"jsonPath": "a", "pattern": "1"}]},
        {"request": {"body": {}}, "expect": [{"jsonPath": "a", "exists": True}]},
    ]

    digests = {parse(openai(test)).smoke_digest for test in tests}

    assert len(digests) == len(tests)


# ---------------------------------------------------------------------- together


UNSUPPORTED = [
    ({"transport": "GRPC"}, "transport"),
    ({"runtime": {}, "model": {"uri": "pvc://a"}}, "runtime.image"),
    ({"model": {"version": "1"}}, "model.version"),
    ({"paths": {"ready": "/r", "metadata": "/m"}}, "paths.metadata"),
    ({"contract": {"inputs": [{"name": "x"}]}}, "contract.inputs"),
    ({"contract": {"outputs": [{"name": "x"}]}}, "contract.outputs"),
    ({"smokeTests": {"tests": [{"name": "t", "inputs": [TENSOR]}]}}, "smokeTests.tests[0].inputs"),
]


@pytest.mark.parametrize("protocol", ["OpenAI", "None"])
@pytest.mark.parametrize(("spec", "path"), UNSUPPORTED)
def test_what_a_protocol_without_tensors_cannot_do_is_rejected(protocol, spec, path):
    resource = plain(**{"protocol": protocol, **spec})

    (found,) = problems(resource)

    assert found.startswith(f"spec.{path}: ")
    assert protocol in found


def test_an_empty_contract_compares_nothing():
    # An apply that removes the tensors of a contract leaves empty lists.
    empty = {"policy": "Warn", "inputs": [], "outputs": []}

    assert problems(plain(contract=empty)) == []


def test_a_server_without_a_protocol_must_name_its_health():
    (found,) = problems(plain(paths={"live": "/livez"}))

    assert found.startswith("spec.paths.ready: is required")


def test_a_server_without_a_protocol_has_no_model():
    (found,) = problems(plain(paths={"ready": "/r", "modelReady": "/m"}))

    assert found.startswith("spec.paths.modelReady: ")


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        ({"protocol": "OpenAI"}, True),
        ({"protocol": "None"}, False),
        ({"protocol": "Auto"}, False),
        ({"protocol": "OpenInference"}, False),
    ],
)
def test_only_openai_has_a_default_path_of_requests(spec, accepted):
    tests = [{"name": "t", "request": {"body": {}}}]

    found = problems(plain(smokeTests={"tests": tests}, **spec))

    assert (found == []) is accepted
    assert accepted or "smokeTests.tests[0].request.path: is required" in found[0]


def test_a_request_is_sent_over_http():
    tests = [{"name": "t", "request": {"path": "/p", "body": {}}}]

    (found,) = problems(body(smokeTests={"tests": tests}, transport="GRPC"))

    assert found.startswith("spec.smokeTests.tests[0].request: requires transport HTTP")


def test_odd_values_are_reported_and_never_raise():
    for odd in (1, "x", [1], {"a": 1}, True):
        for name in ("runtime", "paths", "contract", "smokeTests", "model", "transport"):
            resource = plain()
            resource["spec"][name] = odd
            assert problems(resource) != []
