"""Reads the YAML documents of a manifest, and writes them again; pure.

Documents are read as the API server reads them: JSON values, no duplicate keys, dates as strings.
"""

import json
import math
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, cast

import yaml

__all__ = ["Document", "DocumentError", "dump", "read_documents"]

WIDTH = 110
# Aliases may multiply what a text says tenfold, and beyond that to so many values and characters.
EXPANDED_LIMIT = 1_000_000
MERGED_LIMIT = 10_000
WITHOUT_JSON = ("binary", "omap", "pairs", "set", "timestamp")
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
    head: str = ""
    is_marked: bool = False
    is_ended: bool = False
    has_comments: bool = False


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
    if (value := _json_object(text)) is not None:
        return [Document(value, 0, len(text))]
    try:
        values = [_plain(item, len(text)) for item in yaml.load_all(text, _StrictLoader)]
        places = _places(text)
        comments = _comments(text)
    except yaml.YAMLError as error:
        raise DocumentError(_yaml_problem(error)) from error
    except UnicodeEncodeError as error:
        raise DocumentError("it contains half of a surrogate pair") from error
    except RecursionError as error:
        raise DocumentError("it is nested too deeply") from error
    except DocumentError:
        raise
    except (ValueError, OverflowError) as error:
        raise DocumentError("it has an escape sequence that is not a character") from error
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


def _json_object(text: str) -> dict[str, Any] | None:
    """The only document of a text in JSON; None if it is in YAML, or invalid.

    PyYAML, unlike kubectl, refuses JSON with tabs, and escapes of two halves of a character.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite
        )
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None  # the reader of YAML reports the line
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is duplicate")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("the number has no equivalent in JSON")
    return value


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


def _yaml_problem(error: yaml.YAMLError) -> str:
    """Line, column and problem of a parser's error."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return "it contains a character that YAML does not allow"


def _plain(document: Any, characters: int) -> Any:
    """The document as JSON values.

    Raises:
        DocumentError: It contains itself, or its aliases repeat too much.
        UnicodeEncodeError: It has text that UTF-8 cannot encode.
    """
    if _expanded(document, {}) > 10 * characters + EXPANDED_LIMIT:
        raise DocumentError("its aliases repeat too much: write the values without aliases")
    return json.loads(json.dumps(document, ensure_ascii=False).encode())


def _expanded(value: Any, known: dict[int, int | None]) -> int:
    """The number of values and characters if each alias is replaced by what it stands for.

    Raises:
        DocumentError: The value contains itself.
    """
    if not isinstance(value, dict | list):
        return len(value) if isinstance(value, str) else 1
    mark = id(cast("Any", value))
    if mark not in known:
        known[mark] = None
        items = cast("dict[str, Any] | list[Any]", value)
        below = (*items.keys(), *items.values()) if isinstance(items, dict) else items
        known[mark] = 1 + sum(_expanded(each, known) for each in below)
    size = known[mark]
    if size is None:
        raise DocumentError("it contains itself, by an alias")
    return size


_OCTAL = re.compile(r"([-+]?)0[oO]([0-7_]*[0-7])")


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML without duplicate keys, and with dates as strings, like the API server's."""

    # A copy, because a class shares its resolvers with its base classes.
    yaml_implicit_resolvers = {  # noqa: RUF012 - pyyaml's own declaration
        first: [item for item in resolvers if item[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    # Values without a JSON equivalent.
    yaml_constructors = {  # noqa: RUF012 - pyyaml's own declaration
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag not in {f"tag:yaml.org,2002:{each}" for each in WITHOUT_JSON}
    }

    def read_whole(self, node: Any) -> int | str:
        """The value of a whole number; one such as 12:30 is a text for kubectl.

        Raises:
            ConstructorError: It has more digits than any field allows.
        """
        if ":" in node.value:
            return str(node.value)
        try:
            return self.construct_yaml_int(node)
        except ValueError as error:
            problem = "the number has too many digits or is malformed"
            raise yaml.constructor.ConstructorError(
                None, None, problem, node.start_mark
            ) from error

    def read_boolean(self, node: Any) -> bool:
        """The value of `true`, `yes`, `on`, `y` and so on."""
        return node.value.lower() in {"true", "yes", "on", "y"}

    def read_number(self, node: Any) -> float | str:
        """The value of a number; one such as 1:30.5 is a text for kubectl.

        Raises:
            ConstructorError: JSON has no such number.
        """
        if ":" in node.value:
            return str(node.value)
        if (octal := _OCTAL.fullmatch(node.value)) is not None:
            return int(octal[1] + octal[2].replace("_", ""), 8)
        try:
            value = self.construct_yaml_float(node)
        except ValueError:
            return str(node.value)
        if not math.isfinite(value):
            problem = f"{node.value} has no equivalent in JSON"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value

    def flatten_mapping(self, node: Any) -> None:
        """Add the fields of merge keys to a mapping.

        Raises:
            ConstructorError: They repeat too much.
        """
        super().flatten_mapping(node)
        if len(node.value) > MERGED_LIMIT:
            problem = f"merge keys add more than {MERGED_LIMIT} fields"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping of a node.

        Raises:
            ConstructorError: It has a duplicate key.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must not be a list or an object", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key.value!r}", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


for _kind, _constructor in (
    ("int", _StrictLoader.read_whole),
    ("float", _StrictLoader.read_number),
    ("bool", _StrictLoader.read_boolean),
):
    _StrictLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _constructor)


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
for _each in (_StrictLoader, _Dumper):
    _each.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))
    _each.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(
            r"[-+]?(0[bBoOxX][0-9a-fA-F_]+"
            r"|([0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)([eE][-+]?[0-9]+)?)\Z"
        ),
        list("-+.0123456789"),
    )
