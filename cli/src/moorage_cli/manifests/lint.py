"""`moorage lint`: checks manifests without an API server; pure.

    texts --> resources --> schema and rules of their kind --> further checks of the kind
                       `--> checks of all resources together

The schemas and the messages of their rules come from the packaged CRDs. Documents of other kinds
are ignored, apart from Gateways, which routes are compared with, and lists, whose items count as
documents. A file without a resource of these kinds is a problem, because nothing was checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, cast

import yaml

from moorage_cli.manifests.access_check import access_notes
from moorage_cli.manifests.convert.earlier import moved_fields
from moorage_cli.manifests.device_check import MODEL_SERVER, RUNTIME_SERVER, gpu_notes
from moorage_cli.manifests.documents import DocumentError, read_documents
from moorage_cli.manifests.metadata_check import metadata_problems
from moorage_cli.manifests.model_check import ModelTensors, model_problems
from moorage_cli.manifests.route_check import GatewayDocument, read_gateway, route_problems
from moorage_cli.manifests.runtime_check import Named, runtime_problems, together
from moorage_cli.manifests.spec_check import spec_problems, takes_runtime
from moorage_cli.manifests.structural import Problem, problems
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean
from moorage_cli.printing.tables import Palette, Tone

__all__ = ["Finding", "Schemas", "crd", "lint", "lint_text", "resource_problems", "schemas"]

MODEL, RUNTIME = "InferenceModel", "InferenceRuntime"
CRDS = {MODEL: "inferencemodels.yaml", RUNTIME: "inferenceruntimes.yaml"}
GROUP = "moorage.dev"

Schemas = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""The schemas by kind and `apiVersion`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a file.

    `document` is the model's name, the runtime's name with its kind, or a position in the file.
    """

    file: str
    document: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class _Resource:
    """A document of a checked kind, and its name in findings."""

    file: str
    label: str
    kind: str
    body: Mapping[str, Any]


def crd(kind: str = MODEL) -> Mapping[str, Any]:
    """The CustomResourceDefinition of a kind that is packaged with the tool."""
    text = (files("moorage_cli") / "data" / CRDS[kind]).read_text(encoding="utf-8")
    return yaml.safe_load(text)


def schemas() -> Schemas:
    """The packaged schemas."""
    return {
        kind: {
            f"{GROUP}/{version['name']}": version["schema"]["openAPIV3Schema"]
            for version in crd(kind)["spec"]["versions"]
        }
        for kind in CRDS
    }


def lint(
    texts: Sequence[tuple[str, str]], palette: Palette, tensors: ModelTensors | None = None
) -> Report:
    """The findings for several files; ok if there are none.

    Args:
        texts: Names and texts of the files.
        palette: Colours.
        tensors: Tensors of the model, to compare the manifests with.
    """
    found = _findings(texts, schemas(), tensors)
    bad = {finding.file for finding in found}
    lines = [
        f"{clean(item.file)}: {clean(item.document)}: "
        f"{palette.paint(clean(item.path), Tone.BAD)}: {clean(item.message)}"
        for item in found
    ]
    good = [name for name, _ in texts if name not in bad]
    lines += [f"{clean(name)}: {palette.paint('ok', Tone.GOOD)}" for name in good]
    document = {"ok": not found, "findings": [asdict(item) for item in found]}
    text = "".join(f"{line}\n" for line in lines)
    notes = tuple(_notes(texts)) if not found else ()
    return Report(text, document, ok=not found, notes=notes)


def lint_text(
    name: str, text: str, known: Schemas, tensors: ModelTensors | None = None
) -> list[Finding]:
    """The findings for one file."""
    return _findings([(name, text)], known, tensors)


def _findings(
    texts: Sequence[tuple[str, str]], known: Schemas, tensors: ModelTensors | None
) -> list[Finding]:
    found: list[Finding] = []
    valid: list[_Resource] = []
    gateways: list[GatewayDocument] = []
    for name, text in texts:
        try:
            resources = _resources(name, text)
        except DocumentError as error:
            found.append(Finding(name, "YAML", "-", f"is not valid YAML: {error}"))
            continue
        gateways += _gateways(text)
        for resource in resources:
            judged = resource_problems(resource.body, known, tensors)
            found += [_finding(resource, item) for item in judged]
            valid += [] if judged else [resource]
        if not resources:
            nothing = f"no document has kind {' or '.join(CRDS)}"
            found.append(Finding(name, "file", "kind", nothing))
    named = [
        Named(each.kind == RUNTIME, str(each.body["metadata"].get("name", "")), each.body["spec"])
        for each in valid
    ]
    found += [_finding(valid[at], item) for at, item in together(named)]
    for each in valid:
        if each.kind == MODEL:
            namespace = str(each.body["metadata"].get("namespace") or "")
            judged = route_problems(each.body["spec"], namespace, gateways)
            found += [_finding(each, item) for item in judged]
    return found


def _gateways(text: str) -> Iterator[GatewayDocument]:
    """The Gateways of a file, whose other fields are not checked."""
    for _, body in _objects(text):
        gateway = read_gateway(body)
        if gateway:
            yield gateway


def _notes(texts: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What valid files leave to their authors."""
    resources = [each for name, text in texts for each in _resources(name, text)]
    runtimes = {
        str(each.body["metadata"].get("name")): each.body["spec"]
        for each in resources
        if each.kind == RUNTIME
    }
    for each in resources:
        for item in _notes_of(each, runtimes):
            yield f"{clean(each.file)}: {clean(each.label)}: {item.path}: {item.message}"


def _notes_of(resource: _Resource, runtimes: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    spec = cast("Mapping[str, Any]", resource.body["spec"])
    if resource.kind == RUNTIME:
        yield from gpu_notes(spec, RUNTIME_SERVER)
        return
    yield from access_notes(spec)
    name = str((spec.get("runtime") or {}).get("name"))
    if not takes_runtime(spec):
        yield from gpu_notes(spec, MODEL_SERVER)
    elif name in runtimes:
        yield from gpu_notes(spec, MODEL_SERVER, runtimes[name])


def _finding(resource: _Resource, problem: Problem) -> Finding:
    return Finding(resource.file, resource.label, problem.path or "-", problem.message)


def _resources(file: str, text: str) -> list[_Resource]:
    """The documents of the checked kinds.

    Raises:
        DocumentError: The text is not valid YAML.
    """
    found: list[_Resource] = []
    for place, body in _objects(text):
        kind = body.get("kind")
        if isinstance(kind, str) and kind in CRDS:
            found.append(_Resource(file, _label(body, kind, place), kind, body))
    return found


def _objects(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a text with their places; of a list, its items, as kubectl applies them."""
    for number, document in enumerate(read_documents(text), start=1):
        yield from _flattened(document.value, f"document {number}")


def _flattened(value: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(value, Mapping):
        return
    body = cast("Mapping[str, Any]", value)
    items = body.get("items")
    if not (str(body.get("kind")).endswith("List") and isinstance(items, list)):
        yield place, body
        return
    for number, item in enumerate(cast("list[Any]", items), start=1):
        yield from _flattened(item, f"{place}, item {number}")


def resource_problems(
    body: Mapping[str, Any], known: Schemas, tensors: ModelTensors | None = None
) -> list[Problem]:
    """The problems of one resource of a checked kind."""
    kind = body["kind"]
    versions = known[kind]
    version = body.get("apiVersion")
    schema = versions.get(version) if isinstance(version, str) else None
    if schema is None:
        problem = f"{version!r} is invalid: must be {' or '.join(versions)}"
        return [Problem("apiVersion", problem)]
    if kind == MODEL and (moved := moved_fields(body)):
        return moved  # the other checks need fields in their present places
    found = [*metadata_problems(body.get("metadata")), *problems(body, schema)]
    if found:
        return found  # the further checks need a valid spec
    spec = cast("Mapping[str, Any]", body["spec"])
    if kind == RUNTIME:
        return runtime_problems(spec)
    found = spec_problems(spec)
    return found if tensors is None else [*found, *model_problems(spec, tensors)]


def _label(body: Mapping[str, Any], kind: str, place: str) -> str:
    metadata = body.get("metadata")
    name = cast("Mapping[str, Any]", metadata).get("name") if isinstance(metadata, Mapping) else ""
    if not name:
        return place
    return f"{kind} {name}" if kind == RUNTIME else str(name)
