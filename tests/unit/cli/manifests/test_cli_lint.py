"""Problems that lint finds; an integration test sends the same specs to an API server."""

import re
from pathlib import Path

import pytest
import yaml

from moorage_cli.manifests.documents import dump
from moorage_cli.manifests.lint import crd, lint, lint_text, schemas
from moorage_cli.manifests.rules import holds
from moorage_cli.manifests.structural import with_defaults
from moorage_cli.printing.tables import Palette
from support.cli_manifests import BREAKS_A_RULE, REFUSED, manifest

ROOT = Path(__file__).resolve().parents[4]
EXAMPLES = sorted((ROOT / "examples").rglob("inferencemodel.yaml"))
PLAIN = Palette(coloured=False)
SCHEMA = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SCHEMAS = schemas()


def findings(text):
    return [(item.path, item.message) for item in lint_text("file", text, SCHEMAS)]


def all_rules(schema):
    found = list(schema.get("x-kubernetes-validations", []))
    below = [*schema.get("properties", {}).values(), schema.get("items", {})]
    return found + [rule for item in below if item for rule in all_rules(item)]


# Functions that the cases below prove.
FUNCTIONS = {
    "all",
    "exists",
    "exists_one",
    "has",
    "isSorted",
    "map",
    "matches",
    "startsWith",
    "string",
    "size",
    "substring",
    "endsWith",
}


@pytest.mark.parametrize("rule", all_rules(SCHEMA), ids=lambda rule: rule["rule"])
def test_every_rule_of_the_crd_has_known_functions(rule):
    without_texts = re.sub(r"'(\\.|[^'])*'", "", rule["rule"])

    assert set(re.findall(r"(\w+)\(", without_texts)) <= FUNCTIONS


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("self.a <= self.b", {"a": 1, "b": 2}, True),
        ("self.a <= self.b", {"a": 3, "b": 2}, False),
        ("self.a <= self.b", {"a": 2**70, "b": 2}, False),
        ("'iris.a'.endsWith(self.a.substring(1))", {"a": "*.a"}, True),
        ("'irisba'.endsWith(self.a.substring(1))", {"a": "*.a"}, False),
        ("'iris.a'.endsWith(self.a.substring(4))", {"a": "*.a"}, False),
        ("self.a.substring(0) == 'iris'", {"a": "iris"}, True),
        ("self.a.substring(4) == ''", {"a": "iris"}, True),
        ("self.a.substring(5) == ''", {"a": "iris"}, False),
        # a missing field is an error, which `||` ignores if the other side is true
        ("self.a <= self.b", {"a": 3}, False),
        ("self.a == 1 || self.b == 1", {"b": 1}, True),
        ("has(self.a) && has(self.a.b)", {"a": {}}, False),
        ("has(self.a) && has(self.a.b)", {"a": {"b": 0}}, True),
        # RE2: `$` does not match before a final newline
        ("self.matches('^a$')", "a", True),
        ("self.matches('^a$')", "a\n", False),
        ("self.matches('^a.$')", "a\0", True),
        ("self.startsWith('a')", "ab", True),
        ("self.startsWith('a')", "ba", False),
        ("self.map(each, each.n).isSorted()", [{"n": 1}, {"n": 1}, {"n": 2}], True),
        ("self.map(each, each.n).isSorted()", [{"n": 10}, {"n": 9}], False),
        ("self.all(a, self.exists_one(b, b == a))", [1, 2], True),
        ("self.all(a, self.exists_one(b, b == a))", [1, 1], False),
        ("string(self) in ['0', '0%']", 0, True),
        ("string(self) in ['0', '0%']", "10%", False),
    ],
)
def test_a_rule_is_evaluated_as_in_an_api_server(rule, value, expected):
    assert holds(rule, value) is expected


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_is_clean(path):
    assert findings(path.read_text()) == []


def test_there_are_examples():
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("rule", all_rules(SCHEMA), ids=lambda rule: rule["rule"])
def test_every_rule_of_the_crd_has_a_spec_that_breaks_it(rule):
    assert any(sentence in rule["message"] for _, _, sentence in BREAKS_A_RULE)


@pytest.mark.parametrize(("spec", "path", "sentence"), REFUSED)
def test_an_invalid_spec_is_reported_with_the_path_of_the_field(spec, path, sentence):
    found = findings(dump(manifest(spec)))

    assert path in [at for at, _ in found]
    assert sentence in " ".join(message for _, message in found)


@pytest.mark.parametrize("choice", [{"runtime": {"name": "a"}}, {"model": {"format": "gguf"}}])
def test_a_runtime_may_set_the_other_port(choice):
    runtime = {**choice.get("runtime", {}), "ports": {"grpc": 8000}}
    spec = {"model": {"uri": "pvc://models/a", **choice.get("model", {})}, "runtime": runtime}

    assert findings(yaml.safe_dump(manifest(spec))) == []


def test_a_valid_spec_has_no_problems():
    spec = {
        "model": {"uri": "pvc://models/a/b", "version": "3"},
        "protocol": "TensorFlowServing",
        "paths": {"ready": "/r?x=%20"},
        "health": {"readinessTarget": "Server"},
        "runtime": {"resources": {"requests": {"cpu": 1, "memory": "1Gi"}}},
        "podTemplate": {"spec": {"tolerations": [{"key": None}]}},
        "affinity": {"nodeAffinity": {}},
        "suspend": None,
    }

    assert findings(yaml.safe_dump(manifest(spec))) == []


@pytest.mark.parametrize("kind", ["List", "InferenceModelList"])
def test_the_items_of_a_list_are_checked(kind):
    items = [manifest({"replicas": -1}), {"kind": "List", "items": [{"kind": "InferenceModel"}]}]
    text = yaml.safe_dump({"apiVersion": "v1", "kind": kind, "items": items})

    found = lint_text("file", text, SCHEMAS)

    assert [(item.document, item.path) for item in found] == [
        ("checked", "spec.replicas"),
        ("document 1, item 2, item 1", "apiVersion"),
    ]


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        ("{", "-", "line 1, column 2"),
        ("a: &a [*a]\nkind: InferenceModel\n", "-", "is not valid YAML"),
        ("kind: InferenceModel\nkind: InferenceModel\n", "-", "duplicate key 'kind'"),
        ("kind: Service\n", "kind", "no document has kind InferenceModel"),
        ("", "kind", "no document has kind InferenceModel"),
        ("kind: InferenceModel\n", "apiVersion", "None is invalid: must be moorage.dev/v1alpha1"),
        (
            "kind: InferenceModel\napiVersion: moorage.dev/v1\n",
            "apiVersion",
            "'moorage.dev/v1' is invalid",
        ),
        (
            "kind: InferenceModel\napiVersion: moorage.dev/v1alpha1\nmetadata: {name: A_b}\n",
            "metadata.name",
            "'A_b' is invalid",
        ),
        ("? [a]\n: b\n", "-", "is not valid YAML"),
        ("[" * 3000, "-", "is not valid YAML"),
        ('kind: "\\uD800"', "-", "is not valid YAML"),
    ],
)
def test_a_file_without_a_valid_manifest_is_reported(text, path, sentence):
    found = dict(findings(text))

    assert sentence in found[path]


def test_documents_of_other_kinds_are_ignored():
    service = "kind: Service\nspec: {replica: 1}\n---\n"
    text = service + yaml.safe_dump(manifest({"model": {"uri": "pvc://a"}}))

    assert findings(text) == []


def test_the_report_has_one_line_per_problem():
    good = yaml.safe_dump(manifest({"model": {"uri": "pvc://a"}}))
    bad = yaml.safe_dump(manifest({"model": {"uri": "pvc://a"}, "replica": 1}))

    assert lint([("good", good)], PLAIN).ok
    report = lint([("good", good), ("bad", bad)], PLAIN)
    assert not report.ok
    assert report.text == (
        "bad: checked: spec.replica: unknown field; did you mean replicas?\ngood: ok\n"
    )
    assert report.document["findings"][0]["path"] == "spec.replica"


def test_defaults_are_set_only_in_objects_that_exist():
    filled = with_defaults({"spec": {"contract": {"policy": None}}}, SCHEMA)

    assert filled["spec"]["replicas"] == 1
    assert filled["spec"]["contract"]["policy"] == "Warn"
    assert "smokeTests" not in filled["spec"]


@pytest.mark.parametrize(
    ("cpu", "message"),
    [
        ("0.1", '0.1 is invalid: must be an integer or a string; write "0.1"'),
        ("[1]", "[1] is invalid: must be an integer or a string"),
    ],
)
def test_a_quantity_that_the_api_server_refuses_is_explained(cpu, message):
    spec = {"runtime": {"resources": {"requests": {"cpu": yaml.safe_load(cpu)}}}}
    text = yaml.safe_dump(manifest({"model": {"uri": "pvc://models/digits"}, **spec}))

    assert findings(text) == [("spec.runtime.resources.requests.cpu", message)]


# What an API server says of each was compared.
METADATA = [
    (
        {"labels": {"version": 1}},
        "metadata.labels[version]",
        "1 is invalid: must be a string: put",
    ),
    ({"annotations": {"a": True}}, "metadata.annotations[a]", "True is invalid: must be a string"),
    ({"labels": {"a": "b c"}}, "metadata.labels[a]", "'b c' is invalid: must be at most 63 lett"),
    ({"labels": {"a": "x."}}, "metadata.labels[a]", "'x.' is invalid"),
    ({"labels": {"a": "x" * 64}}, "metadata.labels[a]", "at most 63 letters"),
    ({"labels": {"a b": "c"}}, "metadata.labels[a b]", "the key is invalid: must be at most 63"),
    ({"labels": {"A.b/c": "x"}}, "metadata.labels[A.b/c]", "the key is invalid"),
    ({"annotations": {"/c": "x"}}, "metadata.annotations[/c]", "the key is invalid"),
    ({"annotations": {"a/b/c": "x"}}, "metadata.annotations[a/b/c]", "the key is invalid"),
    ({"annotations": {"": "x"}}, "metadata.annotations[]", "the key is invalid"),
    ({"labels": ["a"]}, "metadata.labels", "['a'] is invalid: must be of type object"),
    ({"annotations": {"a": "x" * 262_144}}, "metadata.annotations", "must have at most 262144"),
    ({"namespace": "A_b"}, "metadata.namespace", "'A_b' is invalid: must be at most 63 lowercase"),
    ({"label": {}}, "metadata.label", "unknown field; did you mean labels?"),
]


@pytest.mark.parametrize(("metadata", "path", "sentence"), METADATA)
def test_metadata_that_an_api_server_refuses_is_reported(metadata, path, sentence):
    body = manifest({"model": {"uri": "pvc://a"}})
    body["metadata"] |= metadata

    ((at, message),) = findings(dump(body))

    assert at == path
    assert sentence in message


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"a": None, "b": "", "a.b/C_d": "X.y_z"}, "namespace": "team-a"},
        {"annotations": {"A.b/c": " any\ntext ", "d": None}, "creationTimestamp": None},
        {"labels": None, "annotations": {}, "finalizers": ["a.b/c"], "uid": "x"},
    ],
)
def test_metadata_that_an_api_server_accepts_has_no_problems(metadata):
    body = manifest({"model": {"uri": "pvc://a"}})
    body["metadata"] |= metadata

    assert findings(dump(body)) == []


def test_a_number_that_does_not_fit_its_field_is_reported():
    spec = {"model": {"uri": "pvc://a"}, "replicas": 99_999_999_999}

    assert findings(dump(manifest(spec))) == [
        ("spec.replicas", "99999999999 is invalid: must be between -2147483648 and 2147483647")
    ]
