"""CRDs of other projects, installed for as long as a test needs them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.go_programs import source
from support.kubectl import Kubectl, as_list

__all__ = ["flux_crds", "installed"]

FLUX = Path(__file__).resolve().parents[1] / "gitops" / "crds"
FLUX_FILES = {
    "github.com/fluxcd/kustomize-controller": "kustomize.toolkit.fluxcd.io_kustomizations",
    "github.com/fluxcd/source-controller": "source.toolkit.fluxcd.io_gitrepositories",
}


def flux_crds() -> list[dict[str, Any]]:
    """The CRDs of Flux's Kustomization and GitRepository; without Go a test is skipped."""
    files = [
        source(FLUX, module) / "config" / "crd" / "bases" / f"{name}.yaml"
        for module, name in FLUX_FILES.items()
    ]
    return [yaml.safe_load(file.read_text()) for file in files]


@contextmanager
def installed(cluster: Kubectl, definitions: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """These CRDs, established; they are deleted when the context ends."""
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    # a CRD can be longer than the annotation of a client-side apply
    cluster.run("apply", "--server-side", "-f", "-", stdin=as_list(tuple(definitions)))
    try:
        cluster.run("wait", "--for=condition=Established", "--timeout=30s", *names)
        yield
    finally:
        cluster.run("delete", *names)
