"""The declared fields of other projects: the reference page shows them, and conversions obey."""

import copy
import json
from functools import cache

import pytest

from moorage_cli.manifests.convert import (
    kserve_fields,
    mlserver,
    seldon,
    serving_runtimes,
    triton,
)
from moorage_cli.manifests.convert.conversion import Fate
from moorage_cli.manifests.convert.draft import Draft
from moorage_cli.manifests.convert.fields import Field, field_of, parse_path, written_path
from moorage_cli.manifests.convert.kserve import convert_kserve
from moorage_cli.manifests.convert.mlserver import convert_mlserver
from moorage_cli.manifests.convert.seldon import convert_seldon
from moorage_cli.manifests.convert.serving_runtimes import convert_serving_runtime
from moorage_cli.manifests.convert.triton import convert_triton
from moorage_cli.manifests.lint import resource_problems, schemas
from support.foreign_manifests import CONFIG_PBTXT, FOREIGN, KSERVE, MODEL_SETTINGS, RUNTIMES

SCHEMAS = schemas()
OF_KSERVE = [each for each in FOREIGN if each["apiVersion"] == KSERVE]
OF_RUNTIMES = [each for each in FOREIGN if each["apiVersion"] == RUNTIMES]
OF_SELDON = [each for each in FOREIGN if each["kind"] == "Model"]
FORMATS = [
    (kserve_fields.FIELDS, OF_KSERVE, convert_kserve),
    (serving_runtimes.FIELDS, OF_RUNTIMES, convert_serving_runtime),
    (seldon.FIELDS, OF_SELDON, convert_seldon),
    (mlserver.FIELDS, [MODEL_SETTINGS], convert_mlserver),
]
CASES = [
    pytest.param(field, examples, convert, id=f"{convert.__name__}-{field.path}")
    for fields, examples, convert in FORMATS
    for field in fields
]


def places(value, pattern, path=()):
    """The paths of a value that a pattern matches."""
    if not pattern:
        return [path]
    if not isinstance(value, dict | list):
        return []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        found
        for name, item in items
        if pattern[0] in ("*", name)
        for found in places(item, pattern[1:], (*path, name))
    ]


def without(value, path):
    changed = copy.deepcopy(value)
    below = changed
    for part in path[:-1]:
        below = below[part]
    del below[path[-1]]
    return changed


@cache
def converted(convert, number):
    """The conversion of an example, which several tests read."""
    examples = next(each for _, each, own in FORMATS if own is convert)
    return convert(examples[number], SCHEMAS)


def holds(result, target):
    value = result
    for part in parse_path(target):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


@pytest.mark.parametrize(("field", "examples", "convert"), CASES)
def test_a_declared_field_goes_where_it_says(field, examples, convert):
    pattern = parse_path(field.path)
    having = [(at, places(each, pattern)) for at, each in enumerate(examples)]
    made = [(converted(convert, at), found) for at, found in having if found]
    assert made, f"no example has {field.path}"

    for target in filter(None, field.target.split(", ")):
        assert any(holds(each.resources[0], target) for each, _ in made), target
    if not field.target:
        for each, found in made:
            lost = {note.path: note.sentence for note in each.notes if note.fate is Fate.LOST}
            assert all(field.remark in lost.get(written_path(path), "") for path in found)


@pytest.mark.parametrize(("field", "examples", "convert"), CASES)
def test_a_field_with_a_target_has_an_effect(field, examples, convert):
    required = {"metadata.name", "name"}
    if not field.target or field.path in required:
        return
    pattern = parse_path(field.path)
    found = [(at, path) for at, each in enumerate(examples) for path in places(each, pattern)]

    assert any(
        converted(convert, at).resources != convert_or_none(convert, without(examples[at], path))
        for at, path in found
    )


def convert_or_none(convert, value):
    try:
        return convert(value, SCHEMAS).resources
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("examples", "convert"), [(examples, convert) for _, examples, convert in FORMATS]
)
def test_examples_become_resources_that_pass_lint(examples, convert):
    for at, _ in enumerate(examples):
        (result,) = converted(convert, at).resources
        assert resource_problems(result, SCHEMAS) == []


def test_the_declared_fields_of_triton_have_an_effect():
    (result,) = convert_triton(CONFIG_PBTXT, SCHEMAS).resources

    for field in triton.FIELDS:
        assert all(holds(result, target) for target in filter(None, field.target.split(", ")))
    assert resource_problems(result, SCHEMAS) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec.predictor.*.image", ("spec", "predictor", "*", "image")),
        ("metadata.annotations[a.b/c]", ("metadata", "annotations", "a.b/c")),
        ("spec.containers[0].args[12]", ("spec", "containers", 0, "args", 12)),
        ("limits[1]", ("limits", 1)),
    ],
)
def test_a_path_is_read_as_it_is_written(text, path):
    assert parse_path(text) == path
    assert parse_path(written_path(path)) == path


def test_the_most_specific_declared_field_holds_a_path():
    fields = [Field("spec.a"), Field("spec.a.*.c"), Field("spec.a.b")]

    assert field_of(fields, ("spec", "a", "b", "c", "d")) == (("spec", "a", "b", "c"), fields[1])
    assert field_of(fields, ("spec", "a", "b")) == (("spec", "a", "b"), fields[2])
    assert field_of(fields, ("other",)) == (("other",), None)


def test_a_leaf_that_nobody_reads_is_lost_with_its_value():
    draft = Draft({"spec": {"a": {"b": 1}, "c": [True], "d": None}}, [Field("spec.a", remark="x")])
    draft.put("apiVersion", "moorage.dev/v1alpha1")
    draft.put("kind", "InferenceModel")
    draft.put("metadata.name", "iris")
    draft.put("spec.model.uri", "pvc://models/iris")

    notes = draft.settle(SCHEMAS).notes

    assert [(note.path, note.value, note.fate) for note in notes] == [
        ("spec.a", {"b": 1}, Fate.LOST),
        ("spec.c[0]", True, Fate.LOST),
    ]
    assert str(notes[0]) == 'spec.a: {"b": 1}: lost: has no equivalent: x'


def test_an_empty_collection_of_a_field_with_a_target_is_no_loss():
    source = {"spec": {"a": {"x": {}, "y": []}, "b": {}, "c": {}, "d": [], "e": [{}]}}
    fields = [
        Field("spec.a", "spec.runtime"),
        Field("spec.b", remark="is switched on by presence"),
    ]
    draft = Draft(source, fields)
    draft.put("apiVersion", "moorage.dev/v1alpha1")
    draft.put("kind", "InferenceModel")
    draft.put("metadata.name", "iris")
    draft.put("spec.model.uri", "pvc://models/iris")
    draft.lose(("spec", "d"), "flags of another server")

    notes = draft.settle(SCHEMAS).notes

    assert [(note.path, note.value) for note in notes] == [
        ("spec.b", {}),
        ("spec.c", {}),
        ("spec.e[0]", {}),
    ]


def test_examples_are_not_changed_by_a_conversion():
    before = json.dumps(FOREIGN)

    for fields, examples, convert in FORMATS:
        assert fields
        for each in examples:
            convert(each, SCHEMAS)

    assert json.dumps(FOREIGN) == before
