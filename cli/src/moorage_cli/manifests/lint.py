"""`moorage lint`: checks manifests without an API server; pure.

The schema and the messages of its rules come from the packaged CRD. Documents of other kinds are
ignored. A file without an InferenceModel is a problem, because nothing was checked.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, cast

import yaml

from moorage_cli.manifests.convert.earlier import moved_fields
from moorage_cli.manifests.documents import DocumentError, read_documents
from moorage_cli.manifests.model_check import ModelTensors, model_problems
from moorage_cli.manifests.spec_check import spec_problems
from moorage_cli.manifests.structural import Problem, problems
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean
from moorage_cli.printing.tables import Palette, Tone

__all__ = ["Finding", "crd", "lint", "lint_text"]

KIND = "InferenceModel"
GROUP = "moorage.dev"
# RFC 1123 subdomain, which the API server requires as the name of an object.
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a file; `document` is the model's name, or its position in the file."""

    file: str
    document: str
    path: str
    message: str


def crd() -> Mapping[str, Any]:
    """The CustomResourceDefinition that is packaged with the tool."""
    text = (files("moorage_cli") / "data" / "inferencemodels.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def lint(
    texts: Sequence[tuple[str, str]], palette: Palette, tensors: ModelTensors | None = None
) -> Report:
    """The findings for several files; ok if there are none.

    Args:
        texts: Names and texts of the files.
        palette: Colours.
        tensors: Tensors of the model, to compare the manifests with.
    """
    versions = _schemas()
    found = [
        finding for name, text in texts for finding in lint_text(name, text, versions, tensors)
    ]
    bad = {finding.file for finding in found}
    lines = [
        f"{clean(item.file)}: {clean(item.document)}: "
        f"{palette.paint(clean(item.path), Tone.BAD)}: {clean(item.message)}"
        for item in found
    ]
    good = [name for name, _ in texts if name not in bad]
    lines += [f"{clean(name)}: {palette.paint('ok', Tone.GOOD)}" for name in good]
    document = {"ok": not found, "findings": [asdict(item) for item in found]}
    return Report("".join(f"{line}\n" for line in lines), document, ok=not found)


def lint_text(
    name: str, text: str, versions: Mapping[str, Any], tensors: ModelTensors | None = None
) -> list[Finding]:
    """The findings for one file, with the schemas by `apiVersion`."""
    try:
        documents = [document.value for document in read_documents(text)]
    except DocumentError as error:
        return [Finding(name, "YAML", "-", f"is not valid YAML: {error}")]
    found: list[Finding] = []
    models = 0
    for number, document in enumerate(documents, start=1):
        if not isinstance(document, Mapping):
            continue
        resource = cast("Mapping[str, Any]", document)
        if resource.get("kind") != KIND:
            continue
        models += 1
        label = _label(resource, number)
        found += [
            Finding(name, label, item.path or "-", item.message)
            for item in _judged(resource, versions, tensors)
        ]
    if not models:
        found.append(Finding(name, "file", "kind", f"no document has kind {KIND}"))
    return found


def _judged(
    resource: Mapping[str, Any], versions: Mapping[str, Any], tensors: ModelTensors | None
) -> list[Problem]:
    version = resource.get("apiVersion")
    schema = versions.get(version) if isinstance(version, str) else None
    if schema is None:
        problem = f"{version!r} is invalid: must be {' or '.join(versions)}"
        return [Problem("apiVersion", problem)]
    if moved := moved_fields(resource):
        return moved  # the other checks need fields in their present places
    found = [*_wrong_names(resource.get("metadata")), *problems(resource, schema)]
    if found:
        return found  # the further checks need a valid spec
    spec = cast("Mapping[str, Any]", resource["spec"])
    found = spec_problems(spec)
    return found if tensors is None else [*found, *model_problems(spec, tensors)]


def _wrong_names(metadata: Any) -> list[Problem]:
    given = cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else {}
    name = given.get("name")
    if name is None and given.get("generateName"):
        return []
    if isinstance(name, str) and len(name) <= 253 and _OBJECT_NAME.fullmatch(name):
        return []
    allowed = "must be at most 253 lowercase letters, digits, '-' and '.'"
    return [Problem("metadata.name", f"{name!r} is invalid: {allowed}")]


def _label(resource: Mapping[str, Any], number: int) -> str:
    metadata = resource.get("metadata")
    name = cast("Mapping[str, Any]", metadata).get("name") if isinstance(metadata, Mapping) else ""
    return str(name) if name else f"document {number}"


def _schemas() -> dict[str, Any]:
    """The schemas by `apiVersion`."""
    return {
        f"{GROUP}/{version['name']}": version["schema"]["openAPIV3Schema"]
        for version in crd()["spec"]["versions"]
    }
