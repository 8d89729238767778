"""Reads untrusted YAML, with limits on size, depth and nodes, and without aliases.

    bytes of a model.yaml -> read() -> plain values -> config.parse

PyYAML alone expands aliases without limit, recurses once per level, and raises ValueError for a
date such as 2026-02-30. Pure.
"""

from typing import Any, Final

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.reader import ReaderError

# A typical model.yaml has a few hundred bytes; thousands of labels still fit.
LIMIT_BYTES: Final = 256 * 1024
LIMIT_DEPTH: Final = 32
LIMIT_NODES: Final = 20_000
LIMIT_DIGITS: Final = 400
# PyYAML's constructors raise these for an invalid scalar.
_INVALID_SCALAR: Final = (ValueError, OverflowError, KeyError, AttributeError, TypeError)
# PyYAML's name for the encoding of text whose bytes it could decode.
_DECODED: Final = "unicode"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with limits."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        mark = self.peek_event().start_mark
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(
                None, None, "aliases (*name) are not supported: repeat the value", mark
            )
        self._nodes += 1
        if self._depth >= LIMIT_DEPTH or self._nodes > LIMIT_NODES:
            raise ComposerError(
                None, None, f"it has more than {LIMIT_DEPTH} levels or {LIMIT_NODES} values", mark
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        is_number = isinstance(node, yaml.ScalarNode) and node.tag.endswith((":int", ":float"))
        if is_number and len(node.value) > LIMIT_DIGITS:
            raise ConstructorError(
                None, None, f"a number has more than {LIMIT_DIGITS} digits", node.start_mark
            )
        try:
            found = super().construct_object(node, deep)
        except _INVALID_SCALAR as error:
            kind = node.tag.rpartition(":")[2]
            raise ConstructorError(
                None,
                None,
                f"{node.value!r:.60} is not a valid {kind}; quote text",
                node.start_mark,
            ) from error
        if isinstance(found, str) and not _is_text(found):
            raise ConstructorError(
                None, None, f"{found!r:.60} contains half of a surrogate pair", node.start_mark
            )
        return found


def read(text: bytes) -> object:
    """The document as plain values; None for an empty one.

    Raises:
        ValueError: The text is not YAML, or exceeds a limit; the message says where.
    """
    if len(text) > LIMIT_BYTES:
        raise ValueError(f"the file has {len(text)} bytes: must have {LIMIT_BYTES} or fewer")
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise ValueError(_sentence(error)) from error
    finally:
        if loader is not None:
            loader.dispose()


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _sentence(error: yaml.YAMLError) -> str:
    """The place of an error and its problem, without the parser's context."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if isinstance(error, ReaderError) and error.encoding != _DECODED:
        return "the text is not UTF-8"
    return "it contains a character that YAML does not allow"
