"""Decodes YAML from an untrusted server; pure.

Only the subset that metadata needs: mappings, lists and strings. Aliases and anchors are rejected,
because a few hundred bytes of them can expand to gigabytes. The tree is built from the parser's
events, so that depth and size are checked while it is built.
"""

from collections.abc import Iterator
from typing import Any

import yaml

__all__ = ["NotYaml", "decode"]

TEXT_LIMIT_CHARACTERS = 64 << 10
NODE_LIMIT = 4096
"""256 inputs and 64 outputs, with shapes, are some 3,000 nodes."""

DEPTH_LIMIT = 16


class NotYaml(Exception):
    """The text is not supported YAML."""


def decode(text: str) -> object:
    """Decode a document to dicts, lists and strings; scalars remain strings.

    Raises:
        NotYaml: The text is not YAML, is too large or too deep, or has an alias or an anchor.
    """
    if len(text) > TEXT_LIMIT_CHARACTERS:
        raise NotYaml
    try:
        return _Tree(yaml.parse(text, Loader=_LOADER)).build()
    except (yaml.YAMLError, ValueError) as error:
        raise NotYaml from error


class _Tree:
    """Builds one document from the parser's events."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._nodes = 0

    def build(self) -> object:
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                return self._node(event, 0)
        return None

    def _node(self, event: Any, depth: int) -> object:
        self._nodes += 1
        if self._nodes > NODE_LIMIT or depth > DEPTH_LIMIT:
            raise NotYaml
        if isinstance(event, yaml.AliasEvent) or event.anchor:
            raise NotYaml
        if isinstance(event, yaml.ScalarEvent):
            return str(event.value)
        children = self._children(depth + 1)
        if isinstance(event, yaml.SequenceStartEvent):
            return list(children)
        return self._mapping(children)

    def _children(self, depth: int) -> Iterator[object]:
        for event in self._events:
            if isinstance(event, yaml.CollectionEndEvent):
                return
            yield self._node(event, depth)

    def _mapping(self, children: Iterator[object]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key in children:
            if not isinstance(key, str):
                raise NotYaml
            found[key] = next(children)
        return found


# The loader of libyaml is ten times as fast, but not available on every platform.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
