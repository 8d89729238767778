"""Parses answers of the API server: objects, pages of a list, events of a watch.

client --> bytes --> decoded, read_page, lines and read_change --> values for the reflectors
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from . import errors

LINE_LIMIT_BYTES = 16 << 20
"""A safety limit: an event cannot exceed etcd's request limit (1.5 MiB by default)."""

T = TypeVar("T")


class Items(Iterable[dict[str, Any]]):
    """The objects of a page, decoded one at a time.

    A decoded object takes five times the memory of its JSON. The process would never return the
    memory of a whole decoded page, because small values that outlive it fragment the heap.
    """

    def __init__(self, encoded: Sequence[msgspec.Raw]) -> None:
        self._encoded = encoded

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Decode one object after the other."""
        return (decoded(each) for each in self._encoded)


class _List(msgspec.Struct):
    """A list of the API server. Metadata that a proxy left out would make it an empty one."""

    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None = None  # null for an empty list


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list; `continue_` is "" on the last one."""

    items: Iterable[dict[str, Any]]
    resource_version: str
    continue_: str


@dataclass(frozen=True, slots=True)
class Change:
    """An event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    type: str
    object: dict[str, Any]


async def lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Split the chunks of a watch into lines.

    Raises:
        ServerError: A line exceeds the limit.
    """
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        *whole, tail = rest.split(b"\n")
        rest = tail
        for line in whole:
            if line.strip():
                yield bytes(line)
        if len(rest) > LINE_LIMIT_BYTES:
            raise errors.ServerError(f"a watch event is larger than {LINE_LIMIT_BYTES} bytes")


def read_change(line: bytes) -> Change:
    """Parse an event of a watch.

    Raises:
        ApiError: The event is an ERROR; its status determines the class.
    """
    event = decoded(line)
    found = event.get("object")
    body: dict[str, Any] = found if isinstance(found, dict) else {}
    if event.get("type") == "ERROR":
        code = body.get("code")
        raise errors.from_status(code if isinstance(code, int) else 500, body)
    return Change(str(event.get("type")), body)


def read_object(data: bytes) -> dict[str, Any]:
    """Parse a stored object, which has a version; the answer of a proxy in its place has none.

    Raises:
        ServerError: It is not an object.
    """
    found = decoded(data)
    metadata = found.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
        raise errors.ServerError("the API server's answer is not a stored object")
    return found


def read_page(data: bytes) -> Page:
    """Parse a page of a list.

    Raises:
        ServerError: It is not a list.
    """
    found = decoded(data, _List)
    return Page(
        items=Items(found.items or []),
        resource_version=found.metadata.get("resourceVersion", ""),
        continue_=found.metadata.get("continue", ""),
    )


def decoded(data: bytes | msgspec.Raw, kind: type[T] = dict[str, Any]) -> T:
    """Decode a JSON object to dictionaries or to a type.

    Raises:
        ServerError: It is not a JSON object.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise errors.ServerError(
            f"the API server's answer is not a JSON object: {error}"
        ) from error
