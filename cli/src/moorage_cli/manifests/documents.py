"""Reads the YAML documents of a manifest, and writes them again; pure.

Documents are read as the API server reads them: JSON values, no duplicate keys, dates as strings.
"""

import json
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

__all__ = ["Document", "DocumentError", "dump", "read_documents"]

WIDTH = 110
# What YAML 1.1 treats as line breaks besides the newline.
LINE_BREAKS = frozenset("\r\x85\u2028\u2029")


class DocumentError(ValueError):
    """Text that is not valid YAML; the message names the line and the problem."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text.

    Attributes:
        value: Its value, of JSON types.
        start: Where the document begins in the text, at its marker `---` if it has one.
        end: Where the next one begins.
        head: The comments between the marker and the content.
        is_marked: Whether it begins with the marker.
        is_ended: Whether it ends with the marker `...`.
        has_comments: Whether there are comments after `head`.
    """

    value: Any
    start: int
    end: int
    head: str
    is_marked: bool
    is_ended: bool
    has_comments: bool


@dataclass(slots=True)
class _Place:
    """Where a document, its inside after the marker and its content begin in a text."""

    start: int
    inside: int
    content: int
    is_marked: bool
    is_ended: bool = False


def read_documents(text: str) -> list[Document]:
    """Return the documents of a text with their places in it.

    Raises:
        DocumentError: The text is not valid YAML, or has values without a JSON equivalent.
    """
    try:
        values = [_plain(item) for item in yaml.load_all(text, _StrictLoader)]
        places = _places(text)
        comments = _comments(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise DocumentError(_yaml_problem(error)) from error
    ends = [*(place.start for place in places), len(text)][1:]
    found: list[Document] = []
    for value, place, end in zip(values, places, ends, strict=True):
        above = text[place.inside : place.content]
        head = above[: above.rfind("\n") + 1].lstrip("\n")
        is_within = any(place.content <= at < end for at in comments)
        found.append(
            Document(value, place.start, end, head, place.is_marked, place.is_ended, is_within)
        )
    return found


def dump(value: Any) -> str:
    """Return a value as YAML: short collections on one line, long texts as literal blocks."""
    return yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=WIDTH,
    )


def _places(text: str) -> list[_Place]:
    found: list[_Place] = []
    is_open = False
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.DocumentStartEvent):
            # Only the first document can be without a marker; it begins with the text.
            start = _index(event.start_mark) if event.explicit else 0
            inside = _index(event.end_mark) if event.explicit else 0
            found.append(_Place(start, inside, inside, bool(event.explicit)))
            is_open = True
        elif isinstance(event, yaml.DocumentEndEvent):
            found[-1].is_ended = bool(event.explicit)
        elif is_open:
            found[-1].content = max(found[-1].inside, _index(event.start_mark))
            is_open = False
    return found


def _index(mark: Any) -> int:
    """Return the place of a mark; the stubs allow an event without one, which PyYAML never has."""
    return mark.index


def _comments(text: str) -> list[int]:
    """Return where the comments of a text are: only they and spaces stand between its tokens."""
    found: list[int] = []
    end = 0
    for token in yaml.scan(text, yaml.SafeLoader):
        at = text.find("#", end, max(end, token.start_mark.index))
        if at >= 0:
            found.append(at)
        end = max(end, token.end_mark.index)
    return found


def _yaml_problem(error: Exception) -> str:
    """Line, column and problem of a parser's error."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if isinstance(error, yaml.YAMLError):
        return "it contains a character that YAML does not allow"
    return "it is nested too deeply, contains itself, or has a value without a JSON equivalent"


def _plain(document: Any) -> Any:
    """The document as JSON values.

    Raises:
        ValueError: It contains itself, or text that UTF-8 cannot encode.
        TypeError: It has a value without a JSON equivalent.
    """
    return json.loads(json.dumps(document, ensure_ascii=False).encode())


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML without duplicate keys, and with dates as strings, like the API server's."""

    # A copy, because a class shares its resolvers with its base classes.
    yaml_implicit_resolvers = {  # noqa: RUF012 - pyyaml's own declaration
        first: [item for item in resolvers if item[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping of a node.

        Raises:
            ConstructorError: It has a duplicate key.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key.value!r}", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Safe YAML with indented lists and with texts of several lines as literal blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of a list below its key."""
        del indentless
        super().increase_indent(flow, indentless=False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if LINE_BREAKS & set(text):
        style = '"'  # the only style in which PyYAML escapes them instead of folding them
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
# Texts that kubectl reads as a boolean or a number if they have no quotes, and PyYAML does not.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(0[bBoOxX][0-9a-fA-F_]+"
        r"|([0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)([eE][-+]?[0-9]+)?)\Z"
    ),
    list("-+.0123456789"),
)
