"""A real API server accepts every manifest of the examples and the documentation.

kubectl uses a strict dry run, which checks unknown fields, CEL rules and defaults.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.control_plane import kubectl_of
from support.definitions import flux_crds, installed
from support.gateway_api import crds as gateway_crds
from support.kubectl import Kubectl, as_list
from support.operator_cluster import GROUP, Api, install_runtimes_crd

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```yaml(?: title=\S+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/**/*.y*ml"))


def objects(text: str) -> list[dict[str, Any]]:
    """The API objects of a file or block; a block with only `spec:` is the spec of a model.

    Objects of Argo CD are left out: its CRDs are only in a module of 250 MB.
    """
    documents = [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
    return [
        completed(each)
        for each in documents
        if ("kind" in each or set(each) == {"spec"})
        and not each.get("apiVersion", "").startswith("argoproj.io/")
    ]


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """The document without its namespace, or a model around a document with only `spec:`."""
    if "kind" in document:
        metadata = {k: v for k, v in document["metadata"].items() if k != "namespace"}
        return {**document, "metadata": metadata}
    spec = {"model": {"uri": "pvc://models/iris"}} | document["spec"]
    head = {"apiVersion": GROUP, "kind": "InferenceModel", "metadata": {"name": "iris"}}
    return {**head, "spec": spec}


def written() -> list[Any]:
    """Each example file and each block of a page with objects, with its location."""
    found = [(path, "", objects(path.read_text())) for path in EXAMPLES]
    for page in PAGES:
        text = page.read_text()
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            found.append((page, f":{line}", objects(block[1])))
    return [
        pytest.param(made, id=f"{path.relative_to(ROOT)}{line}")
        for path, line, made in found
        if made
    ]


@pytest.fixture(scope="module", autouse=True)
def kinds(kubeconfig: Path) -> Iterator[None]:
    """The other kinds of the examples: runtimes, Gateways, and those of Flux."""
    install_runtimes_crd(kubeconfig)
    with installed(kubectl_of(kubeconfig, "default"), [*gateway_crds(), *flux_crds()]):
        yield


@pytest.fixture
def kubectl(api: Api) -> Kubectl:
    return kubectl_of(api.kubeconfig, api.namespace)


@pytest.mark.parametrize("manifest", written())
def test_documented_manifests_are_accepted(kubectl, manifest):
    answer = kubectl.run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=as_list(tuple(manifest)),
    )

    assert answer.count("created (server dry run)") == len(manifest)


def test_a_dry_run_rejects_an_unknown_field(kubectl):
    wrong = completed({"spec": {"replica": 2}})

    answer = kubectl.run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=as_list((wrong,)),
        check=False,
    )

    assert 'unknown field "replica"' in answer
