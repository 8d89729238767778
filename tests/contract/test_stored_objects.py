"""Stored objects of each released version: what they mean now is what they meant then."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_cli.edit import rollback
from moorage_cli.manifests.structural import problems, with_defaults
from moorage_operator.api import written_spec
from moorage_operator.api.fields import Fields
from moorage_operator.api.v1alpha1 import InferenceModel, parse
from moorage_operator.api.written_spec import write_spec
from moorage_operator.decide.rollout.revision_specs import read_spec
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.values.observed import RevisionRecord
from support.operator_values import CONFIG

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "tests" / "stored"
CRD = yaml.safe_load((ROOT / "crds" / "inferencemodels.yaml").read_text())
SCHEMAS = {
    version["name"]: version["schema"]["openAPIV3Schema"] for version in CRD["spec"]["versions"]
}
STORAGE = next(each["name"] for each in CRD["spec"]["versions"] if each["storage"])
OBJECTS = sorted(STORED.glob("*/*.yaml"))
UID = "d4d3f2a0-0000-4000-8000-000000000000"


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def parsed(resource: dict[str, Any], spec: Any = None) -> InferenceModel:
    metadata = {**resource["metadata"], "namespace": "ns", "uid": UID}
    return parse({"metadata": metadata, "spec": spec or resource["spec"]})


def leaves(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths of the schema's fields that a value has; all of them without a value."""
    below = schema.get("properties")
    items = schema.get("items") or {}
    if below:
        for name, each in below.items():
            if value is None or name in value:
                here = f"{path}.{name}"
                yield from leaves(value[name] if value is not None else None, each, here)
    elif items.get("properties"):
        for item in [None] if value is None else value:
            yield from leaves(item, items, f"{path}[]")
    else:
        yield path


@pytest.fixture(params=OBJECTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_each_version_of_the_crd_has_stored_objects() -> None:
    assert set(SCHEMAS) <= {path.parent.name for path in OBJECTS}


@pytest.mark.parametrize("version", SCHEMAS)
def test_the_stored_objects_have_every_field(version: str) -> None:
    schema = SCHEMAS[version]["properties"]["spec"]
    found = [read(path)["spec"] for path in OBJECTS if path.parent.name == version]

    known = {leaf for spec in found for leaf in leaves(spec, schema)}

    assert set(leaves(None, schema)) - known == set()


def test_a_stored_object_is_valid(path: Path) -> None:
    resource = read(path)

    assert problems(resource, SCHEMAS[resource["apiVersion"].partition("/")[2]]) == []
    assert parsed(resource).problems == ()


def test_a_stored_object_is_valid_with_the_schema_of_the_storage_version(path: Path) -> None:
    """With conversion strategy None, only `apiVersion` of an object changes."""
    assert problems(read(path), SCHEMAS[STORAGE]) == []


def derived(path: Path) -> dict[str, str]:
    """What the operator derives from a stored object, by the names of the file beside it."""
    of = parsed(read(path))
    annotations = make_pod_template(of, CONFIG)["metadata"].get("annotations") or {}
    return {
        "hash": of.written.hash,
        "kept": of.written.kept,
        "smokeDigest": of.smoke_digest,
        "enforced": annotations.get("moorage.dev/enforced", ""),
    }


def test_the_hash_and_the_kept_spec_are_those_of_the_release(path: Path) -> None:
    assert derived(path) == json.loads(path.with_suffix(".json").read_text())


def test_the_defaults_of_the_crd_change_nothing(path: Path) -> None:
    resource = read(path)
    filled = with_defaults(resource, SCHEMAS[STORAGE])

    assert filled != resource
    assert parsed(filled).written == parsed(resource).written


def test_a_field_that_is_added_later_with_a_default_changes_nothing() -> None:
    def written(spec: dict[str, Any]) -> dict[str, Any]:
        """What a later version reads, whose CRD fills in the new fields."""
        fields = Fields(spec, "spec", [])
        fields.text("name")
        fields.choice("protocol", parsed(read(OBJECTS[0])).protocol)
        below = fields.child("later")
        below.integer("seconds", 30, 0, 60)
        below.flag("enabled", default=False)
        for item in fields.items("tests"):
            item.text("name")
            item.integer("laterSeconds", 5, 0, 60)
        fields.unknown()
        assert fields.problems == []
        return fields.written()

    before = {"name": "iris", "tests": [{"name": "a"}]}
    tests = [{"name": "a", "laterSeconds": 5}]
    after = {"name": "iris", "tests": tests, "later": {"seconds": 30, "enabled": False}}

    assert write_spec(UID, written(after)) == write_spec(UID, written(before))
    other = {"name": "iris", "later": {"seconds": 31}}
    assert write_spec(UID, written(other)) != write_spec(UID, written({"name": "iris"}))


def test_a_kept_spec_is_read_back_and_written_again_with_the_same_bytes(path: Path) -> None:
    of = parsed(read(path))

    then = read_spec(RevisionRecord(b"{}", of.written.kept.encode()), of)

    assert then == of
    assert then is not None
    assert then.written.kept == of.written.kept


def test_a_rollback_of_the_tool_leaves_the_fields_that_are_not_kept() -> None:
    assert rollback.APART == written_spec.NOT_KEPT
    assert rollback.FORMAT == written_spec.VERSION
