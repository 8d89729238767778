"""Rewrites the documents of a manifest; those that need no conversion stay as they are; pure.

text --> documents --> a source format --> **convert_text** --> text

The format is detected by content. A file is either a manifest with documents, or the settings of a
model for Triton or MLServer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from moorage_cli.manifests.documents import Document, DocumentError, dump, read_documents
from moorage_cli.manifests.lint import schemas

from .conversion import Conversion, ConversionError, Fate, Note
from .earlier import convert_earlier
from .kserve import convert_kserve
from .mlserver import convert_mlserver, is_mlserver
from .seldon import convert_seldon
from .serving_runtimes import convert_serving_runtime
from .textproto import TextError
from .triton import convert_triton, is_triton

__all__ = ["Converted", "Hints", "convert_text", "joined"]

# API groups whose other kinds have no conversion.
_FOREIGN = (
    "serving.kserve.io/", "serving.kubeflow.org/", "mlops.seldon.io/",
    "machinelearning.seldon.io/",
)  # fmt: skip
_OWN = "moorage.dev/"
_SUPPORTED = (
    "InferenceModel and InferenceRuntime of Moorage, InferenceService, ServingRuntime and "
    "ClusterServingRuntime of KServe, Model of Seldon Core 2, config.pbtxt of Triton, and "
    "model-settings.json of MLServer"
)
_schemas = cache(schemas)


@dataclass(frozen=True, slots=True)
class Hints:
    """What a text does not say about itself.

    Args:
        folder: Name of the folder that holds the file, which can be the name of a model.
        uri: Location of the model's files, in place of one that the text names.
    """

    folder: str = ""
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Converted:
    """The text of a manifest after the conversion.

    Args:
        text: The text.
        notes: Sentences about what is not carried over unchanged.
        has_losses: Whether something is lost.
        is_settings: Whether a server keeps reading the file, so that it must stay.
    """

    text: str
    notes: tuple[str, ...] = ()
    has_losses: bool = False
    is_settings: bool = False


# A note with the name of its resource; without one, the document's.
_Report = list[tuple[str, Note]]


def convert_text(text: str, hints: Hints = Hints()) -> Converted:
    """Rewrite a manifest, or the settings of a model.

    Raises:
        DocumentError: The text is neither valid YAML nor a valid config.pbtxt.
        ConversionError: A resource cannot be converted; the message names it.
    """
    return _settings(text, hints) or _manifest(text, hints)


def _settings(text: str, hints: Hints) -> Converted | None:
    """Convert a config.pbtxt or a model-settings.json; None for any other text."""
    if is_triton(text):
        try:
            made = convert_triton(text, _schemas(), hints.folder, hints.uri)
        except TextError as error:
            if _is_yaml(text):
                return None
            raise DocumentError(f"{error}, so it is not a config.pbtxt") from error
        return _converted_settings(made)
    if not text.lstrip().startswith("{"):
        return None
    documents = read_documents(text)
    value = documents[0].value if len(documents) == 1 else None
    if not isinstance(value, Mapping) or not is_mlserver(cast("Mapping[str, Any]", value)):
        return None
    settings = cast("Mapping[str, Any]", value)
    return _converted_settings(convert_mlserver(settings, _schemas(), hints.folder, hints.uri))


def _converted_settings(made: Conversion) -> Converted:
    (resource,) = made.resources
    label = _label(resource, 1)
    notes = tuple(f"{label}: {note}" for note in made.notes)
    return Converted(dump(resource), notes, _has_losses(made.notes), is_settings=True)


def _is_yaml(text: str) -> bool:
    try:
        read_documents(text)
    except DocumentError:
        return False
    return True


def _manifest(text: str, hints: Hints) -> Converted:
    notes: list[str] = []
    has_losses = False
    parts: list[str] = []
    end = 0
    documents = read_documents(text)
    for number, document in enumerate(documents, start=1):
        parts.append(text[end : document.start])
        end = document.end
        label = _label(document.value, number)
        if not isinstance(document.value, Mapping | None):
            what = "plain text" if isinstance(document.value, str) else "not an object"
            raise ConversionError(f"{label}: is {what}: must be a resource with a kind")
        report: _Report = []
        try:
            made = _convert(document.value, hints, label, report)
        except ConversionError as error:
            raise ConversionError(f"{label}: {error}") from error
        notes += [f"{name}: {note}" for name, note in report]
        has_losses = has_losses or _has_losses([note for _, note in report])
        if made is None:
            parts.append(text[document.start : end])
            continue
        parts.append(_written(document, made))
        if document.has_comments:
            notes.append(f"{label}: comments inside the document are not kept")
    parts.append(text[end:])
    if all(document.value is None for document in documents):
        notes.append(
            f"nothing to convert: the text contains no resource: supported are {_SUPPORTED}"
        )
    unknown = _unknown_kinds([document.value for document in documents])
    if unknown:
        notes.append(f"nothing to convert in {', '.join(unknown)}: supported are {_SUPPORTED}")
    return Converted("".join(parts), tuple(notes), has_losses)


def _unknown_kinds(values: Sequence[Any]) -> Sequence[str]:
    """The kinds of the resources if none of them belongs to Moorage or a supported project."""
    found: dict[str, None] = {}
    for value in values:
        if not isinstance(value, Mapping):
            continue
        resource = cast("Mapping[str, Any]", value)
        items = resource.get("items")
        version = str(resource.get("apiVersion", ""))
        if version.startswith((_OWN, *_FOREIGN)):
            return ()
        if not isinstance(items, list):
            found[f"{resource.get('kind')} of {version}" if version else resource["kind"]] = None
        elif items:
            nested = _unknown_kinds(cast("list[Any]", items))
            if not nested:
                return ()
            found |= dict.fromkeys(nested)
    return list(found)


def _has_losses(notes: Sequence[Note]) -> bool:
    return any(note.fate is Fate.LOST for note in notes)


def joined(texts: Sequence[str]) -> str:
    """Return several manifests as one, with a marker between the documents of two files."""
    whole = ""
    for text in texts:
        if whole and not whole.endswith("\n"):
            whole += "\n"
        is_marked = any(document.is_marked for document in read_documents(text)[:1])
        whole += text if is_marked or not whole else f"---\n{text}"
    return whole


def _convert(
    value: Any, hints: Hints, label: str, report: _Report
) -> Sequence[Mapping[str, Any]] | None:
    """Convert a resource, or the items of a list such as `kubectl get -o yaml` prints."""
    if not isinstance(value, Mapping):
        return None
    resource = cast("Mapping[str, Any]", value)
    items = resource.get("items")
    if not isinstance(items, list):
        return _convert_resource(resource, hints, label, report)
    after: list[Any] = []
    is_changed = False
    for number, item in enumerate(cast("list[Any]", items), start=1):
        name = _label(item, number)
        try:
            made = _convert(item, hints, name, report)
        except ConversionError as error:
            raise ConversionError(f"{name}: {error}") from error
        is_changed = is_changed or made is not None
        after += [item] if made is None else made
    if not is_changed:
        return None
    is_typed = str(resource.get("apiVersion", "")).startswith(_FOREIGN)
    head = {"apiVersion": "v1", "kind": "List"} if is_typed else {}
    return ({**resource, **head, "items": after},)


def _convert_resource(
    resource: Mapping[str, Any], hints: Hints, label: str, report: _Report
) -> Sequence[Mapping[str, Any]] | None:
    if not isinstance(resource.get("kind"), str):
        raise ConversionError(f"has no kind: supported are {_SUPPORTED}")
    made = convert_earlier(resource)
    if made is None and str(resource.get("apiVersion", "")).startswith(_FOREIGN):
        made = (
            convert_kserve(resource, _schemas(), hints.uri)
            or convert_serving_runtime(resource, _schemas())
            or convert_seldon(resource, _schemas(), hints.uri)
        )
        if made is None:
            version = f"{resource.get('kind')} of {resource.get('apiVersion')}"
            sentence = "has no conversion: the document stays as it is"
            report.append((label, Note("kind", version, Fate.LOST, sentence)))
    if made is None:
        return None
    report += [(label, note) for note in made.notes]
    return made.resources


def _written(document: Document, resources: Sequence[Mapping[str, Any]]) -> str:
    """Return the converted document in place of the given one, with the comments before it."""
    texts = "---\n".join(dump(resource) for resource in resources)
    begin = "---\n" if document.is_marked else ""
    end = "...\n" if document.is_ended else ""
    return f"{begin}{document.head}{texts}{end}"


def _label(value: Any, number: int) -> str:
    """Return the name of a resource, or its position in the text."""
    for part in ("metadata", "name"):
        value = cast("Mapping[str, Any]", value).get(part) if isinstance(value, Mapping) else None
    return str(value) if value else f"document {number}"
