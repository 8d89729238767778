"""What lint finds without an API server; an integration test asks a real one the same."""

from pathlib import Path

import pytest
import yaml

from moorage_cli.lint import crd, lint, lint_text
from moorage_cli.rules import RULES, normalised
from moorage_cli.structural import with_defaults
from moorage_cli.tables import Palette
from support.cli_manifests import REFUSED, manifest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples").rglob("inferencemodel.yaml"))
PLAIN = Palette(coloured=False)
SCHEMA = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SCHEMAS = {"moorage.dev/v1alpha1": SCHEMA}


def findings(text):
    return [(item.path, item.message) for item in lint_text("file", text, SCHEMAS)]


def all_rules(schema):
    found = [normalised(rule["rule"]) for rule in schema.get("x-kubernetes-validations", [])]
    below = [*schema.get("properties", {}).values(), schema.get("items", {})]
    return found + [rule for item in below if item for rule in all_rules(item)]


def test_every_rule_of_the_crd_has_its_predicate_and_every_predicate_its_rule():
    assert set(all_rules(SCHEMA)) == set(RULES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_is_clean(path):
    assert findings(path.read_text()) == []


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize(("spec", "path", "sentence"), REFUSED)
def test_a_wrong_spec_is_found_with_the_fields_path(spec, path, sentence):
    found = findings(yaml.safe_dump(manifest(spec)))

    assert path in [at for at, _ in found]
    assert sentence in " ".join(message for _, message in found)


def test_a_right_spec_is_clean_whatever_its_form():
    spec = {
        "model": {"uri": "pvc://models/a/b", "version": "3"},
        "protocol": "TensorFlowServing",
        "endpoints": {"ready": "/r?x=%20"},
        "health": {"readinessTarget": "Server"},
        "runtime": {"resources": {"requests": {"cpu": 1, "memory": "1Gi"}}},
        "podTemplate": {"spec": {"anything": [{"goes": None}]}},
        "affinity": {"nodeAffinity": {}},
        "suspend": None,
    }

    assert findings(yaml.safe_dump(manifest(spec))) == []


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        ("{", "-", "cannot be read"),
        ("a: &a [*a]\nkind: InferenceModel\n", "-", "cannot be read"),
        ("kind: InferenceModel\nkind: InferenceModel\n", "-", "stands here twice"),
        ("kind: Service\n", "kind", "expected a document of kind InferenceModel"),
        ("", "kind", "expected a document of kind InferenceModel"),
        ("kind: InferenceModel\n", "apiVersion", "expected moorage.dev/v1alpha1, got None"),
        (
            "kind: InferenceModel\napiVersion: moorage.dev/v1\n",
            "apiVersion",
            "got 'moorage.dev/v1'",
        ),
        (
            "kind: InferenceModel\napiVersion: moorage.dev/v1alpha1\nmetadata: {name: A_b}\n",
            "metadata.name",
            "got 'A_b'",
        ),
        ("? [a]\n: b\n", "-", "cannot be read"),
        ("[" * 3000, "-", "cannot be read"),
    ],
)
def test_a_file_that_is_no_manifest_is_told(text, path, sentence):
    found = dict(findings(text))

    assert sentence in found[path]


def test_documents_of_other_kinds_are_left_to_others():
    service = "kind: Service\nspec: {replica: 1}\n---\n"
    text = service + yaml.safe_dump(manifest({"model": {"uri": "pvc://a"}}))

    assert findings(text) == []


def test_the_report_has_a_line_a_problem_and_is_ok_without():
    good = yaml.safe_dump(manifest({"model": {"uri": "pvc://a"}}))
    bad = yaml.safe_dump(manifest({"model": {"uri": "pvc://a"}, "replica": 1}))

    assert lint([("good", good)], PLAIN).ok
    report = lint([("good", good), ("bad", bad)], PLAIN)
    assert not report.ok
    assert report.text == (
        "bad: checked: spec.replica: unknown field; did you mean replicas?\ngood: ok\n"
    )
    assert report.document["findings"][0]["path"] == "spec.replica"


def test_defaults_are_filled_where_their_object_is_there():
    filled = with_defaults({"spec": {"health": {"periodSeconds": None}}}, SCHEMA)

    assert filled["spec"]["replicas"] == 1
    assert filled["spec"]["health"]["periodSeconds"] == 5
    assert "runtime" not in filled["spec"]
