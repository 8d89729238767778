"""spec.objectMetadata: labels and annotations, and a sentence for each invalid one."""

from typing import Any

import pytest

from moorage_operator.api.fields import Fields, Problem
from moorage_operator.api.object_metadata import ObjectMetadata, parse_object_metadata
from support.spec_sentences import UNKNOWN

KEY = (
    "is invalid: must be a name of at most 63 letters, digits, '-', '_' and '.', optionally after "
    "a DNS name and a slash, such as team or example.com/team"
)
VALUE = (
    "is invalid: must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at "
    "both ends"
)
TAKEN = "the operator or Kubernetes itself sets this key; remove it"


def read(value: Any) -> tuple[ObjectMetadata, list[str], Any]:
    """What was read, its problems, and what is written of it."""
    found: list[Problem] = []
    fields = Fields(value, "spec.objectMetadata", found)
    parsed = parse_object_metadata(fields)
    return parsed, [str(problem) for problem in found], fields.written()


@pytest.mark.parametrize("value", [None, {}, {"labels": {}}, {"labels": None, "annotations": {}}])
def test_without_labels_and_annotations_there_are_none(value: Any) -> None:
    assert read(value) == (ObjectMetadata({}, {}), [], {})


@pytest.mark.parametrize(
    "key",
    ["team", "a", "A.b_c-9", "example.com/team", "a-b.example/Team", "x" * 63, "d" * 253 + "/a"],
)
@pytest.mark.parametrize("value", ["", "a", "A.b_c-9", "x" * 63])
def test_labels_are_read(key: str, value: str) -> None:
    labels = {key: value}

    parsed, problems, written = read({"labels": labels})

    assert (parsed, problems, written) == (ObjectMetadata(labels, {}), [], {"labels": labels})


def test_annotations_have_any_text() -> None:
    annotations = {"example.com/contact": "Team A, \u00e9tage 3\n" * 100}

    parsed, problems, _ = read({"annotations": annotations})

    assert (parsed, problems) == (ObjectMetadata({}, annotations), [])


def test_as_many_as_allowed_are_read() -> None:
    labels = {f"label-{at}": "a" for at in range(64)}

    assert read({"labels": labels})[1] == []
    assert read({"labels": {**labels, "more": "a"}})[1] == [
        "spec.objectMetadata.labels: has 65 labels: must have at most 64"
    ]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], ": [] is invalid: must be an object"),
        ({"labels": "team"}, ".labels: 'team' is invalid: must be an object"),
        ({"finalizers": []}, f".finalizers: {UNKNOWN}"),
        ({"labels": {"team": 3}}, ".labels[team]: 3 is invalid: must be a string"),
        ({"annotations": {"note": True}}, ".annotations[note]: True is invalid: must be a string"),
        ({"labels": {"team": "a b"}}, f".labels[team]: 'a b' {VALUE}"),
        ({"labels": {"team": "-a"}}, f".labels[team]: '-a' {VALUE}"),
        ({"labels": {"team": "a\n"}}, f".labels[team]: 'a\\n' {VALUE}"),
        ({"labels": {"team": "x" * 64}}, f".labels[team]: '{'x' * 64}' {VALUE}"),
        ({"labels": {"": "a"}}, f".labels: '' {KEY}"),
        ({"labels": {"a team": "a"}}, f".labels: 'a team' {KEY}"),
        ({"labels": {"a/b/c": "a"}}, f".labels: 'a/b/c' {KEY}"),
        ({"labels": {"Example.com/a": "a"}}, f".labels: 'Example.com/a' {KEY}"),
        ({"labels": {"example.com/": "a"}}, f".labels: 'example.com/' {KEY}"),
        ({"annotations": {"x" * 64: "a"}}, f".annotations: '{'x' * 64}' {KEY}"),
        ({"labels": {"moorage.dev/model": "a"}}, f".labels[moorage.dev/model]: {TAKEN}"),
        (
            {"labels": {"app.kubernetes.io/managed-by": "a"}},
            f".labels[app.kubernetes.io/managed-by]: {TAKEN}",
        ),
        ({"labels": {"app.kubernetes.io/name": "a"}}, f".labels[app.kubernetes.io/name]: {TAKEN}"),
        ({"annotations": {"moorage.dev/spec": "a"}}, f".annotations[moorage.dev/spec]: {TAKEN}"),
        (
            {"annotations": {"deployment.kubernetes.io/revision": "9"}},
            f".annotations[deployment.kubernetes.io/revision]: {TAKEN}",
        ),
        (
            {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
            f".annotations[kubectl.kubernetes.io/last-applied-configuration]: {TAKEN}",
        ),
    ],
)
def test_an_invalid_key_or_value_is_named(value: Any, problem: str) -> None:
    assert read(value)[1] == [f"spec.objectMetadata{problem}"]


@pytest.mark.parametrize(
    "key", ["app.kubernetes.io/instance", "app.kubernetes.io/part-of", "app.kubernetes.io/names"]
)
def test_labels_like_those_of_the_operator_can_be_set(key: str) -> None:
    assert read({"labels": {key: "shop"}})[1] == []
