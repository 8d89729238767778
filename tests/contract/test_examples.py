"""Every example's manifest is accepted by the CRD and planned by the operator."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from moorage_operator import plan as planning
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.state import Observed
from support.operator_values import CONFIG, NOW

ROOT = Path(__file__).resolve().parents[2]
CRD = yaml.safe_load((ROOT / "crds" / "inferencemodels.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
EXAMPLES = ROOT / "examples"
MANIFESTS = sorted(
    [
        *EXAMPLES.glob("*/inferencemodel.yaml"),
        *EXAMPLES.glob("05-stores/*.yaml"),
        *EXAMPLES.glob("06-rollouts/*.yaml"),
    ]
)


def documents(path: Path, kind: str) -> list[dict]:
    return [item for item in yaml.safe_load_all(path.read_text()) if item["kind"] == kind]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_manifest_is_accepted_and_planned(path):
    (document,) = documents(path, "InferenceModel")
    named = {**document["metadata"], "namespace": "default", "uid": "u", "generation": 1}

    jsonschema.validate(document, strict(SCHEMA))
    parsed = parse({**document, "metadata": named})

    assert parsed.problems == ()
    assert planning.plan(parsed, Observed(), now=NOW, config=CONFIG).objects


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_config_map_that_the_manifest_names_is_in_it_and_small_enough(path):
    (document,) = documents(path, "InferenceModel")
    scheme, _, name = document["spec"]["model"]["uri"].partition("://")
    maps = {item["metadata"]["name"]: item for item in documents(path, "ConfigMap")}

    assert scheme != "configmap" or name in maps
    for item in maps.values():
        assert 0 < sum(map(len, item["binaryData"].values())) < 2**20


def strict(schema: dict) -> dict:
    """The schema, refusing fields that it does not name, as kubectl does."""
    below = {name: strict(item) for name, item in schema.get("properties", {}).items()}
    if not below or schema.get("x-kubernetes-preserve-unknown-fields"):
        return schema
    known = {"apiVersion": {}, "kind": {}, "metadata": {}} if "spec" in below else {}
    return {**schema, "properties": {**known, **below}, "additionalProperties": False}
