"""The CRD of InferenceRuntimes and its parser agree, and both with the CRD of InferenceModels."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_operator.api.inference_runtime import (
    OF_RUNTIME,
    OF_SPEC,
    UpdatePolicy,
    parse_inference_runtime,
)
from moorage_operator.api.label_selectors import Operator
from moorage_operator.kube import kinds

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "charts" / "moorage" / "templates"


def crd(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text())


def spec_of(name: str) -> dict[str, Any]:
    (version,) = crd(name)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


MODEL, RUNTIME = spec_of("inferencemodels"), spec_of("inferenceruntimes")
OWN = {"formats", "default", "allowedNamespaces", "updatePolicy", "maxConcurrentRollouts"}


def without_texts(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: without_texts(part) for name, part in schema.items() if name != "description"
        }
    return [without_texts(each) for each in schema] if isinstance(schema, list) else schema


def test_a_runtime_has_the_fields_that_the_operator_reads():
    assert set(RUNTIME) == {*OF_RUNTIME, *OF_SPEC, *OWN}


@pytest.mark.parametrize("name", [*OF_RUNTIME, *OF_SPEC])
def test_a_field_has_the_same_schema_as_that_of_a_model(name):
    of_model = MODEL["runtime"]["properties"] if name in OF_RUNTIME else MODEL

    assert without_texts(RUNTIME[name]) == without_texts(of_model[name])


@pytest.mark.parametrize("name", [*OF_RUNTIME, *OF_SPEC])
def test_what_a_runtime_may_set_has_no_default_in_either_crd(name):
    def defaults(schema: Any) -> list[Any]:
        if isinstance(schema, list):
            return [found for each in schema for found in defaults(each)]
        if not isinstance(schema, dict):
            return []
        own = [schema["default"]] if "default" in schema else []
        return own + [found for part in schema.values() for found in defaults(part)]

    of_model = MODEL["runtime"]["properties"] if name in OF_RUNTIME else MODEL
    assert defaults(RUNTIME[name]) == defaults(of_model[name]) == []


def test_the_choices_are_the_same():
    selector = RUNTIME["allowedNamespaces"]["properties"]["selector"]["properties"]
    operators = selector["matchExpressions"]["items"]["properties"]["operator"]["enum"]

    assert RUNTIME["updatePolicy"]["enum"] == [str(each) for each in UpdatePolicy]
    assert operators == [str(each) for each in Operator]


@pytest.mark.parametrize(
    "name", ["savedmodel", "onnx-1.2", "a", "A", "-a", "a-", "a_b", "x" * 63, "x" * 64]
)
def test_a_format_is_judged_alike(name):
    schema = RUNTIME["formats"]["items"]["properties"]["name"]
    of_model = MODEL["model"]["properties"]["format"]
    body = {"metadata": {"name": "r", "uid": "u"}, "spec": {"formats": [{"name": name}]}}

    assert without_texts(schema) == without_texts(of_model)
    accepted = bool(re.search(schema["pattern"], name)) and len(name) <= schema["maxLength"]
    assert (parse_inference_runtime(body).problems == ()) == accepted


def test_every_field_is_described():
    for name, schema in RUNTIME.items():
        assert len(schema["description"]) > 8, name


def test_the_columns_are_the_agreed_ones():
    (version,) = crd("inferenceruntimes")["spec"]["versions"]
    columns = version["additionalPrinterColumns"]

    assert [each["name"] for each in columns if not each.get("priority")] == [
        "Image", "Protocol", "First Format", "Default", "Models", "Outdated", "Age",
    ]  # fmt: skip


def test_no_column_shows_the_first_of_many_results_as_if_it_were_all():
    for kind in ("inferencemodels", "inferenceruntimes"):
        (version,) = crd(kind)["spec"]["versions"]
        # The API server prints only the first result of a path.
        assert not [
            each for each in version["additionalPrinterColumns"] if "[*]" in each["jsonPath"]
        ]


def test_the_chart_grants_the_operator_its_rights_in_the_whole_cluster():
    text = (TEMPLATES / "rbac.yaml").read_text()
    # Outside of every condition, so also with watchNamespaces; only the status has one of its own.
    match = re.search(r"\n---\n# InferenceRuntimes are .*?\nrules:\n(.*?)\n---", text, re.DOTALL)
    assert match
    rules = yaml.safe_load(re.sub(r"^ *\{\{-.*\n", "", match[1], flags=re.MULTILINE))
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

    assert granted == {
        (kind.group, kind.rbac_name, verb) for kind in kinds.OF_CLUSTER for verb in kind.verbs
    }
