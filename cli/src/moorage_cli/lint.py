"""`moorage lint`: the judgement of an API server on manifests, without one; pure.

The schema and the sentences are the CRD's, which is packaged with the tool. Documents of other
kinds are left to others; a file without any InferenceModel is a problem, because then nothing was
checked.
"""

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, cast

import yaml

from .model_check import ModelTensors, model_problems
from .report import Report
from .sanitizing import clean
from .structural import Problem, problems
from .tables import Palette, Tone

__all__ = ["Finding", "crd", "lint", "lint_text"]

KIND = "InferenceModel"
GROUP = "moorage.dev"
# RFC 1123 subdomain, what the API server wants as an object's name.
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a file; `document` is the model's name, or its number in the file from 1."""

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
    """The findings of named texts; ok when there is none.

    Args:
        texts: Names and texts of files.
        palette: How to paint.
        tensors: Those of the model that is to be served, where they are to be compared.
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
    """The findings of one text, with the schemas by `apiVersion`."""
    try:
        documents = [_plain(item) for item in yaml.load_all(text, _StrictLoader)]
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        return [Finding(name, "YAML", "-", f"cannot be read: {error}")]
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
        found.append(Finding(name, "file", "kind", f"expected a document of kind {KIND}"))
    return found


def _judged(
    resource: Mapping[str, Any], versions: Mapping[str, Any], tensors: ModelTensors | None
) -> list[Problem]:
    version = resource.get("apiVersion")
    schema = versions.get(version) if isinstance(version, str) else None
    if schema is None:
        expected = f"expected {' or '.join(versions)}, got {version!r}"
        return [Problem("apiVersion", expected)]
    found = [*_wrong_names(resource.get("metadata")), *problems(resource, schema)]
    if tensors is None or found:
        return found  # what is malformed cannot be compared
    return model_problems(resource["spec"], tensors)


def _wrong_names(metadata: Any) -> list[Problem]:
    given = cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else {}
    name = given.get("name")
    if name is None and given.get("generateName"):
        return []
    if isinstance(name, str) and len(name) <= 253 and _OBJECT_NAME.fullmatch(name):
        return []
    expected = "expected lower case letters, digits, '-' and '.', at most 253 characters"
    return [Problem("metadata.name", f"{expected}, got {name!r}")]


def _label(resource: Mapping[str, Any], number: int) -> str:
    metadata = resource.get("metadata")
    name = cast("Mapping[str, Any]", metadata).get("name") if isinstance(metadata, Mapping) else ""
    return str(name) if name else f"document {number}"


def _schemas() -> dict[str, Any]:
    """The schemas by `apiVersion`; the fields that every object has may be in each."""
    return {
        f"{GROUP}/{version['name']}": version["schema"]["openAPIV3Schema"]
        for version in crd()["spec"]["versions"]
    }


def _plain(document: Any) -> Any:
    """The document as JSON has it.

    Raises:
        ValueError: It contains itself.
        TypeError: It has a value that JSON cannot have.
    """
    return json.loads(json.dumps(document))


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML in which a key stands once and a date is text, as the API server reads it."""

    # A copy, because the resolvers of a class are shared with the classes that it comes from.
    yaml_implicit_resolvers = {  # noqa: RUF012 - pyyaml's own declaration
        first: [item for item in resolvers if item[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping of a node.

        Raises:
            ConstructorError: A key stands in it twice.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands here twice", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)
