"""Stored objects of each released version, sent through the CRD of a real API server."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_cli.manifests.structural import with_defaults
from moorage_operator.api.v1alpha1 import parse
from support.operator_cluster import Api

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = sorted((ROOT / "tests" / "stored").glob("*/*.yaml"))
CRD = yaml.safe_load((ROOT / "crds" / "inferencemodels.yaml").read_text())
STORAGE = next(each for each in CRD["spec"]["versions"] if each["storage"])


def spec_of(resource: dict[str, Any]) -> dict[str, Any]:
    return with_defaults(resource, STORAGE["schema"]["openAPIV3Schema"])["spec"]


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_api_server_returns_the_spec_that_was_stored(api: Api, path: Path) -> None:
    resource = yaml.safe_load(path.read_text())
    resource["spec"]["suspend"] = True  # the operator need not run it

    api.of("InferenceModel").create(body=resource, namespace=api.namespace)
    found = api.get("InferenceModel", resource["metadata"]["name"])

    assert found["spec"] == spec_of(resource)
    metadata = {**found["metadata"], "uid": "u"}
    assert (
        parse({"metadata": metadata, "spec": found["spec"]}).written
        == parse({"metadata": metadata, "spec": resource["spec"]}).written
    )
