"""InferenceRuntime: what a runtime contributes, to whom, and what is said of invalid values."""

from typing import Any

import pytest

from moorage_operator.api.inference_runtime import (
    InferenceRuntime,
    ModelFormat,
    UpdatePolicy,
    parse_inference_runtime,
)
from support.spec_sentences import UNKNOWN

FORMAT = (
    "1 to 63 lowercase letters, digits, '.' and '-', with a letter or digit at both ends, such as "
    "savedmodel"
)
AUTOMATIC = {"updatePolicy": "Automatic"}


def read(spec: Any, **metadata: Any) -> InferenceRuntime:
    return parse_inference_runtime(
        {"metadata": {"name": "triton", "uid": "u", **metadata}, "spec": spec}
    )


def problems(spec: Any) -> list[str]:
    return [str(each) for each in read(spec).problems]


def test_a_runtime_has_its_defaults() -> None:
    assert read({"image": "triton:1"}) == InferenceRuntime(
        name="triton",
        uid="u",
        generation=0,
        content={"runtime": {"image": "triton:1"}},
        formats=(),
        is_default=False,
        allowed_namespaces=None,
        update_policy=UpdatePolicy.ON_EDIT,
        max_concurrent_rollouts=1,
        problems=(),
    )


def test_every_field_is_read() -> None:
    of_runtime: dict[str, Any] = {
        "image": "triton:1",
        "command": ["a"],
        "args": ["b"],
        "env": [{"name": "A", "value": "1"}],
        "ports": {"http": 8080},
        "resources": {"limits": {"cpu": 1}},
    }
    of_spec = {
        "protocol": "OpenAI",
        "transport": "HTTP",
        "paths": {"ready": "/ready"},
        "health": {"periodSeconds": 1},
        "podTemplate": {"spec": {}},
    }
    formats = [{"name": "onnx", "priority": 1000}, {"name": "a" * 63}]
    own = {"formats": formats, "default": True, "maxConcurrentRollouts": 1000}
    parsed = read({**of_runtime, **of_spec, **own, **AUTOMATIC}, generation=7)

    assert parsed == InferenceRuntime(
        name="triton",
        uid="u",
        generation=7,
        content={**of_spec, "runtime": of_runtime},
        formats=(ModelFormat("onnx", 1000), ModelFormat("a" * 63, 0)),
        is_default=True,
        update_policy=UpdatePolicy.AUTOMATIC,
        max_concurrent_rollouts=1000,
    )


def test_a_runtime_without_a_server_contributes_none() -> None:
    assert read({"protocol": "OpenAI"}).content == {"protocol": "OpenAI"}
    assert read(None).content == {}


def test_the_priority_is_that_of_the_format() -> None:
    parsed = read({"formats": [{"name": "onnx", "priority": 2}, {"name": "keras"}]})

    assert [parsed.priority(name) for name in ("onnx", "keras", "tf")] == [2, 0, None]


@pytest.mark.parametrize(
    ("spec", "risk", "sales"),
    [
        ({}, True, True),
        ({"allowedNamespaces": {"selector": {}}}, True, True),
        ({"allowedNamespaces": {"selector": {"matchLabels": {"team": "risk"}}}}, True, False),
    ],
)
def test_the_selector_decides_which_namespaces_may_use_a_runtime(
    spec: Any, risk: bool, sales: bool
) -> None:
    parsed = read(spec)

    assert parsed.problems == ()
    assert parsed.allows({"team": "risk"}) is risk
    assert parsed.allows({"team": "sales"}) is sales


def test_64_formats_are_accepted() -> None:
    formats = [{"name": f"a{at}"} for at in range(65)]

    assert len(read({"formats": formats[:64]}).formats) == 64
    assert problems({"formats": formats}) == ["spec.formats: has 65 formats: must have at most 64"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("triton", ": 'triton' is invalid: must be an object"),
        ({"size": 1}, f".size: {UNKNOWN}"),
        ({"image": 1}, ".image: 1 is invalid: must be a string"),
        (
            {"ports": {"http": 0}},
            ".ports.http: 0 is invalid: must be a whole number from 1 to 65535",
        ),
        (
            {"protocol": "SOAP"},
            (
                ".protocol: 'SOAP' is invalid: must be one of Auto, OpenInference, "
                "TensorFlowServing, GRPS, OpenAI, None"
            ),
        ),
        ({"podTemplate": {"spec": []}}, ".podTemplate.spec: [] is invalid: must be an object"),
        ({"formats": [{}]}, f".formats[0].name: is required and must be {FORMAT}"),
        (
            {"formats": [{"name": "a"}, {"name": "A"}]},
            f".formats[1].name: 'A' is invalid: must be {FORMAT}",
        ),
        (
            {"formats": [{"name": "a"}, {"name": "a"}]},
            ".formats[1].name: duplicate name 'a': names must be unique",
        ),
        (
            {"formats": [{"name": "a", "priority": 1001}]},
            ".formats[0].priority: 1001 is invalid: must be a whole number from 0 to 1000",
        ),
        (
            {"formats": [{"name": "a", "priority": -1}]},
            ".formats[0].priority: -1 is invalid: must be a whole number from 0 to 1000",
        ),
        ({"formats": [{"name": "a", "version": "1"}]}, f".formats[0].version: {UNKNOWN}"),
        ({"default": "yes"}, ".default: 'yes' is invalid: must be true or false"),
        (
            {"allowedNamespaces": {}},
            (
                ".allowedNamespaces.selector: is required and must be a label selector; {} "
                "selects all namespaces"
            ),
        ),
        (
            {"allowedNamespaces": {"selector": {"matchLabels": {"a": 1}}}},
            ".allowedNamespaces.selector.matchLabels.a: 1 is invalid: must be a string",
        ),
        (
            {"allowedNamespaces": {"selector": {}, "names": []}},
            f".allowedNamespaces.names: {UNKNOWN}",
        ),
        (
            {"updatePolicy": "Never"},
            ".updatePolicy: 'Never' is invalid: must be one of OnEdit, Automatic",
        ),
        (
            {"maxConcurrentRollouts": 2},
            (
                ".maxConcurrentRollouts: applies only to updatePolicy Automatic; remove it or set "
                "updatePolicy"
            ),
        ),
        (
            {**AUTOMATIC, "maxConcurrentRollouts": 0},
            ".maxConcurrentRollouts: 0 is invalid: must be a whole number from 1 to 1000",
        ),
        (
            {**AUTOMATIC, "maxConcurrentRollouts": 1001},
            ".maxConcurrentRollouts: 1001 is invalid: must be a whole number from 1 to 1000",
        ),
    ],
)
def test_an_invalid_field_is_reported(spec: Any, expected: str) -> None:
    assert problems(spec) == [f"spec{expected}"]


def test_all_problems_are_reported() -> None:
    found = problems({"image": 1, "formats": [{}, {"name": "a"}], "health": {"retries": 1}})

    assert [each.partition(": ")[0] for each in found] == [
        "spec.image", "spec.health.retries", "spec.formats[0].name",
    ]  # fmt: skip
