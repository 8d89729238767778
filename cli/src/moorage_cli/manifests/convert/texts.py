"""Rewrites the documents of a manifest; those that need no conversion stay as they are; pure.

text --> documents --> a source format --> **convert_text** --> text
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from moorage_cli.manifests.documents import Document, dump, read_documents

from .conversion import Conversion, ConversionError
from .earlier import convert_earlier

__all__ = ["Converted", "convert_text", "joined"]

# Each returns None for a resource that is not of its format.
FORMATS: tuple[Callable[[Mapping[str, Any]], Conversion | None], ...] = (convert_earlier,)


@dataclass(frozen=True, slots=True)
class Converted:
    """The text of a manifest after the conversion, and sentences about what was lost."""

    text: str
    notes: tuple[str, ...] = ()


def convert_text(text: str) -> Converted:
    """Rewrite a manifest.

    Raises:
        DocumentError: The text is not valid YAML.
        ConversionError: A resource cannot be converted; the message names it.
    """
    notes: list[str] = []
    parts: list[str] = []
    end = 0
    for number, document in enumerate(read_documents(text), start=1):
        parts.append(text[end : document.start])
        end = document.end
        label = _label(document.value, number)
        try:
            conversion = _convert(document.value)
        except ConversionError as error:
            raise ConversionError(f"{label}: {error}") from error
        if conversion is None:
            parts.append(text[document.start : end])
            continue
        parts.append(_written(document, conversion))
        notes += [f"{label}: {note}" for note in conversion.notes]
        if document.has_comments:
            notes.append(f"{label}: comments inside the document are not kept")
    parts.append(text[end:])
    return Converted("".join(parts), tuple(notes))


def joined(texts: Sequence[str]) -> str:
    """Return several manifests as one, with a marker between the documents of two files."""
    whole = ""
    for text in texts:
        if whole and not whole.endswith("\n"):
            whole += "\n"
        is_marked = any(document.is_marked for document in read_documents(text)[:1])
        whole += text if is_marked or not whole else f"---\n{text}"
    return whole


def _convert(value: Any) -> Conversion | None:
    """Convert a resource, or the items of a list such as `kubectl get -o yaml` prints."""
    if not isinstance(value, Mapping):
        return None
    resource = cast("Mapping[str, Any]", value)
    items = resource.get("items")
    if not isinstance(items, list):
        return next(filter(None, (convert(resource) for convert in FORMATS)), None)
    found = [(item, _convert(item)) for item in cast("list[Any]", items)]
    if not any(conversion for _, conversion in found):
        return None
    after = [
        each
        for item, conversion in found
        for each in (conversion.resources if conversion else (item,))
    ]
    notes = tuple(note for _, each in found if each for note in each.notes)
    return Conversion(({**resource, "items": after},), notes)


def _written(document: Document, conversion: Conversion) -> str:
    """Return the converted document in place of the given one, with the comments before it."""
    texts = "---\n".join(dump(resource) for resource in conversion.resources)
    begin = "---\n" if document.is_marked else ""
    end = "...\n" if document.is_ended else ""
    return f"{begin}{document.head}{texts}{end}"


def _label(value: Any, number: int) -> str:
    """Return the name of a resource, or its position in the text."""
    for part in ("metadata", "name"):
        value = cast("Mapping[str, Any]", value).get(part) if isinstance(value, Mapping) else None
    return str(value) if value else f"document {number}"
