"""The models of a chaos run are valid, and cover what they are meant to cover."""

import jsonschema
import pytest
import yaml

from chaos.models import MODELS
from moorage_operator.api.v1alpha1 import parse
from support.digits_client import PROTOCOLS
from support.manifests import ROOT

CRD = yaml.safe_load((ROOT / "crds" / "inferencemodels.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize("name", MODELS)
def test_a_manifest_is_valid(name):
    manifest = MODELS[name].manifest(7)
    metadata = {"name": name, "namespace": "chaos", "uid": "u", "generation": 1}

    jsonschema.validate(manifest, SCHEMA)

    assert parse({**manifest, "metadata": metadata}).problems == ()


def test_every_protocol_and_strategy_is_served():
    assert {model.asked for model in MODELS.values()} == set(PROTOCOLS)
    strategies = {model.strategy for model in MODELS.values()}
    assert strategies == {"RollingUpdate", "Recreate", "BlueGreen"}
    assert {model.replicas for model in MODELS.values()} == {1, 2}


def test_an_edit_changes_the_pods():
    model = MODELS["pair"]

    assert model.manifest(1)["spec"]["runtime"] != model.manifest(2)["spec"]["runtime"]
