"""The manifests of the examples are valid, and the commands of their pages can be pasted."""

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
    path for path in EXAMPLES.glob("*/*.yaml") if "InferenceModel\n" in path.read_text()
)
FOLDERS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())

LIST = EXAMPLES / "README.md"
PAGES = [EXAMPLES / name / "README.md" for name in FOLDERS]
LINES_OF_A_PAGE = 70
SUITES = {
    "pods": sorted((ROOT / "tests" / "e2e").glob("test_*.py")),
    "server": [
        *(ROOT / "tests" / "conformance").glob("test_*.py"),
        *(ROOT / "tests" / "unit" / "runtime" / "backends").glob("test_*.py"),
    ],
}
NOTHING_TO_CLEAN = {"05-torchscript"}  # it only runs on the reader's machine


def documents(path: Path, kind: str) -> list[dict]:
    return [item for item in yaml.safe_load_all(path.read_text()) if item["kind"] == kind]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_manifest_is_accepted_and_planned(path):
    for document in documents(path, "InferenceModel"):
        named = {**document["metadata"], "namespace": "default", "uid": "u", "generation": 1}

        jsonschema.validate(document, strict(SCHEMA))
        parsed = parse({**document, "metadata": named})

        assert parsed.problems == ()
        if "name" in document["spec"].get("runtime", {}) or "format" in document["spec"].get(
            "model", {}
        ):
            continue  # its runtime is another object
        assert planning.plan(parsed, Observed(), now=NOW, config=CONFIG).objects


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_manifest_contains_its_config_map_or_the_page_creates_it(path):
    maps = {item["metadata"]["name"]: item for item in documents(path, "ConfigMap")}
    page = [words for words in commands(path.parent / "README.md") if words[0] == "kubectl"]
    created = {words[3] for words in page if words[1:3] == ["create", "configmap"]}
    if any("examples/01-digits/inferencemodel.yaml" in words for words in page):
        created.add("digits")

    for document in documents(path, "InferenceModel"):
        scheme, _, name = document["spec"].get("model", {}).get("uri", "").partition("://")
        assert scheme != "configmap" or name in maps.keys() | created
    for item in maps.values():
        files = item.get("binaryData", {}) | item.get("data", {})
        assert 0 < sum(map(len, files.values())) < 2**20


def test_the_numbers_of_the_examples_are_unique_and_without_a_gap():
    assert [int(name.partition("-")[0]) for name in FOLDERS] == list(range(1, len(FOLDERS) + 1))


def test_the_list_of_examples_has_each_one_in_order():
    listed = re.findall(r"^\| .* \| \[(.*)\]\((.*)/README.md\) \|", LIST.read_text(), re.MULTILINE)

    assert listed == [(name, name) for name in FOLDERS]


def test_the_list_of_examples_states_where_each_one_is_tested():
    rows = re.findall(r"^\| .* \| \[(.*)\]\(.*\) \| (.*) \|$", LIST.read_text(), re.MULTILINE)
    found = {
        name: [
            kind
            for kind, suites in SUITES.items()
            if any(f'"{name}"' in file.read_text() for file in suites)
        ]
        for name, _ in rows
    }

    assert len(rows) == len(FOLDERS)
    for name, tested in rows:
        assert tested.partition(",")[0] == (*found[name], "manifest")[0], name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_page_fits_on_a_screen_and_ends_with_its_clean_up(page):
    text = page.read_text()
    _, _, end = text.partition("\n## Clean up\n")

    assert len(text.splitlines()) <= LINES_OF_A_PAGE
    assert "Expected output" in text or "```text\n" in text or "response" in text
    assert page.parent.name in NOTHING_TO_CLEAN or "kubectl delete " in end


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
        word.removeprefix("@").rstrip(";")
        for words in commands(page)
        for word in words
        if "examples/" in word and "=" not in word
    ]

    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_commands_after_a_server_do_not_wait_for_its_end(page):
    servers = [words for words in commands(page) if words[:2] == ["moorage", "run"]]

    assert all(words[-1] == "&" for words in servers)


def test_the_request_of_the_torchscript_example_fits_its_model():
    folder = EXAMPLES / "05-torchscript"
    (body,) = [words[-1] for words in commands(folder / "README.md") if "-d" in words]
    declared = yaml.safe_load((folder / "model.yaml").read_text())["inputs"]
    tensors = json.loads(body)["inputs"]

    assert [each["name"] for each in tensors] == [each["name"] for each in declared]
    for sent, known in zip(tensors, declared, strict=True):
        assert sent["datatype"] == known["datatype"]
        assert len(sent["shape"]) == len(known["shape"])
        assert len(sent["data"]) == math.prod(sent["shape"])


def test_the_python_model_has_the_network_of_the_first_example():
    wrapped = EXAMPLES / "07-python-model" / "model" / "digits.onnx"

    assert wrapped.read_bytes() == (EXAMPLES / "01-digits" / "model.onnx").read_bytes()


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
