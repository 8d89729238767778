"""The manifests of the examples are valid, and the commands of their pages can be pasted."""

import itertools
import json
import math
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from moorage_operator.api.v1alpha1 import parse
from moorage_operator.decide import plan as planning
from moorage_operator.values.observed import Observed
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
        *EXAMPLES.glob("07-openai/*.yaml"),
        *EXAMPLES.glob("08-any-http/*.yaml"),
        *EXAMPLES.glob("10-expose/*.yaml"),
    ]
)

PAGES = sorted(EXAMPLES.glob("*/README.md"))


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
def test_a_manifest_contains_its_config_map_within_the_size_limit(path):
    (document,) = documents(path, "InferenceModel")
    uri = document["spec"].get("model", {}).get("uri", "")
    scheme, _, name = uri.partition("://")
    maps = {item["metadata"]["name"]: item for item in documents(path, "ConfigMap")}

    assert scheme != "configmap" or name in maps
    for item in maps.values():
        assert 0 < sum(map(len, item["binaryData"].values())) < 2**20


def test_every_example_has_a_name_of_its_own():
    names = [
        document["metadata"]["name"]
        for path in EXAMPLES.glob("*/*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        if document.get("kind") == "InferenceModel"
    ]

    assert len(names) > 5
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_commands_of_a_page_start_from_the_root_of_the_repository(page):
    files = [
        word.removeprefix("@")
        for words in commands(page)
        for before, word in itertools.pairwise(words)
        if word.startswith("@") or before in {"-f", "--model-repository"}
    ]

    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_commands_after_a_server_do_not_wait_for_its_end(page):
    servers = [words for words in commands(page) if words[0] == "moorage-runtime"]

    assert all(words[-1] == "&" for words in servers)


def test_the_request_of_the_torchscript_example_fits_its_model():
    folder = EXAMPLES / "04-torchscript"
    (body,) = [words[-1] for words in commands(folder / "README.md") if "-d" in words]
    declared = yaml.safe_load((folder / "model.yaml").read_text())["inputs"]
    tensors = json.loads(body)["inputs"]

    assert [each["name"] for each in tensors] == [each["name"] for each in declared]
    for sent, known in zip(tensors, declared, strict=True):
        assert sent["datatype"] == known["datatype"]
        assert len(sent["shape"]) == len(known["shape"])
        assert len(sent["data"]) == math.prod(sent["shape"])


def commands(page: Path) -> list[list[str]]:
    """The words of each command in the shell blocks of a page."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    found: list[list[str]] = []
    for block in blocks:
        # A command starts at the beginning of a line; its continuation lines are indented.
        found += [shlex.split(text) for text in re.split(r"\n(?=[a-z])", block)]
    return [words for words in found if words]


def strict(schema: dict) -> dict:
    """The schema, refusing fields that it does not name, as kubectl does."""
    below = {name: strict(item) for name, item in schema.get("properties", {}).items()}
    if not below or schema.get("x-kubernetes-preserve-unknown-fields"):
        return schema
    known = {"apiVersion": {}, "kind": {}, "metadata": {}} if "spec" in below else {}
    return {**schema, "properties": {**known, **below}, "additionalProperties": False}
