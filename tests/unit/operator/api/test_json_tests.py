"""Smoke tests in JSON: what parse() accepts, and what it says about the rest."""

from typing import Any

import pytest

from moorage_operator.api.json_tests import Expectation, JsonRequest, Method
from moorage_operator.api.v1alpha1 import parse
from support.operator_values import body
from support.spec_sentences import UNKNOWN

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


def deep(levels: int) -> dict[str, Any]:
    """A document with so many levels of objects and lists below it."""
    found: Any = {"b": 1}
    for _ in range(levels // 2):
        found = {"a": [found, {}], "c": [], "d": 2}
    return found


def test_the_largest_request_is_accepted():
    texts = {"a": "x" * (64 * 1024 - 8)}
    expect = [
        {"jsonPath": "a", "value": "x" * 4096},
        *[{"jsonPath": "a", "pattern": "x" * 256}] * 31,
    ]
    parsed = parse(
        openai(
            {"request": {"body": deep(30)}, "expect": expect},
            {"request": {"body": texts}},
            {"request": {"method": "GET", "path": "/v1/models"}},
        )
    )

    assert parsed.problems == ()
    requests = [test.request for test in parsed.smoke_tests.tests]
    assert [each.body if each else {} for each in requests] == [deep(30), texts, None]


def test_the_path_of_an_expectation_has_steps():
    assert Expectation("a.b[0]").steps == ("a", "b", 0)
    assert Expectation("$").steps == ()
    assert Expectation("a[*]").steps == ()


PATH = (
    "a JSON path of at most 256 characters that consists of names and indexes, such as "
    "choices[0].message.content"
)
VALUE = "a number, a boolean or a string of at most 4096 characters"

WRONG = [
    ({"request": {}}, ".body: is required and must be a JSON object, unless method is GET"),
    (
        {"request": {"method": "GET", "body": {}}},
        ".body: has no effect with method GET: remove it or set method to POST",
    ),
    (
        {"request": {"method": "PUT", "body": {}}},
        ".method: 'PUT' is invalid: must be one of POST, GET",
    ),
    ({"request": {"body": [1]}}, ".body: [1] is invalid: must be an object"),
    (
        {"request": {"body": {"stream": True}}},
        (
            ".body.stream: True is invalid: must be false or absent, because a test reads one "
            "JSON document and not a stream"
        ),
    ),
    (
        {"request": {"body": {"a": "x" * (64 * 1024 - 7)}}},
        ".body: has 65537 bytes as JSON: must have at most 65536",
    ),
    (
        {"request": {"body": {"a": "\u00e4" * 32 * 1024}}},
        ".body: has 65544 bytes as JSON: must have at most 65536",
    ),
    (
        {"request": {"body": deep(32)}},
        ".body: is nested too deeply: must have at most 32 levels",
    ),
    (
        {"request": {"body": {}, "path": "v1"}},
        (
            ".path: 'v1' is invalid: must be a path that begins with '/' and contains no spaces, "
            "such as /v2/health/ready"
        ),
    ),
    ({"request": {"body": {}, "headers": {}}}, f".headers: {UNKNOWN}"),
]


@pytest.mark.parametrize(("test", "expected"), WRONG)
def test_a_wrong_request_is_rejected_with_its_field_and_value(test, expected):
    assert problems(openai(test)) == [f"spec.smokeTests.tests[0].request{expected}"]


WRONG_EXPECTATIONS = [
    ({"jsonPath": "a"}, ": has none of them: must have exactly one of value, pattern, exists"),
    (
        {"jsonPath": "a", "value": 1, "exists": True},
        ": has value and exists: must have exactly one of value, pattern, exists",
    ),
    ({"value": 1}, f".jsonPath: is required and must be {PATH}"),
    ({"jsonPath": "a[*]", "value": 1}, f".jsonPath: 'a[*]' is invalid: must be {PATH}"),
    ({"jsonPath": "a", "value": [1]}, f".value: [1] is invalid: must be {VALUE}"),
    (
        {"jsonPath": "a", "value": "x" * 4097},
        f".value: 'xxxx{'x' * 72}... is invalid: must be {VALUE}",
    ),
    (
        {"jsonPath": "a", "pattern": "(?=a)"},
        (
            ".pattern: '(?=a)' is invalid: must be a regular expression in RE2's syntax (invalid "
            "perl operator: (?=)"
        ),
    ),
    (
        {"jsonPath": "a", "pattern": "x" * 257},
        f".pattern: '{'x' * 76}... is invalid: must be at most 256 characters",
    ),
    ({"jsonPath": "a", "exists": "yes"}, ".exists: 'yes' is invalid: must be true or false"),
    ({"jsonPath": "a", "exists": True, "is": 1}, f".is: {UNKNOWN}"),
]


@pytest.mark.parametrize(("expectation", "expected"), WRONG_EXPECTATIONS)
def test_a_wrong_expectation_is_rejected_with_its_field_and_value(expectation, expected):
    found = problems(openai({"request": {"body": {}}, "expect": [expectation]}))

    assert found == [f"spec.smokeTests.tests[0].expect[0]{expected}"]


def test_expect_goes_with_a_request():
    test = {"inputs": [TENSOR], "expect": [{"jsonPath": "a", "exists": True}]}

    found = problems(body(smokeTests={"tests": [{"name": "t", **test}]}))

    assert [each.split(":")[0] for each in found] == ["spec.smokeTests.tests[0].expect"]


def test_too_many_expectations_are_rejected():
    many = [{"jsonPath": "a", "exists": True}] * 33

    assert problems(openai({"request": {"body": {}}, "expect": many})) == [
        "spec.smokeTests.tests[0].expect: has 33 expectations: must have at most 32"
    ]


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

    assert found == (
        "spec.paths.modelReady: has no effect with protocol None, which has no models; use "
        "paths.ready"
    )


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


def test_every_request_is_checked():
    tests = [{"name": "a", "inputs": [TENSOR]}, {"name": "b", "request": {"body": {}}}]

    assert problems(body(smokeTests={"tests": tests})) == [
        (
            "spec.smokeTests.tests[1].request.path: is required unless protocol is OpenAI, such "
            "as /v1/chat/completions"
        )
    ]


def test_an_empty_image_is_none():
    found = problems(plain(protocol="OpenAI", runtime={"image": ""}, model={"uri": "pvc://a"}))

    assert found == [
        (
            "spec.runtime.image: is required with protocol OpenAI, because the bundled runtime "
            "speaks others; set it, or set runtime.name to an InferenceRuntime with an image"
        )
    ]


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
