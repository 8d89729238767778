"""What the API server's answers hold: objects, pages of a list, events of a watch.

client --> bytes --> decoded, read_page, lines and read_change --> what the reflectors take
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from . import errors

LINE_LIMIT_BYTES = 16 << 20
"""An event cannot exceed etcd's request limit (1.5 MiB by default); this is only a stop."""

T = TypeVar("T")


class Items(Iterable[dict[str, Any]]):
    """The objects of a page, each decoded when its turn comes.

    As dictionaries an object takes five times its JSON, and what a page takes at once the process
    keeps for good: small values that outlive the page stand among what it leaves behind.
    """

    def __init__(self, encoded: Sequence[msgspec.Raw]) -> None:
        self._encoded = encoded

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """One object after the other."""
        return (decoded(each) for each in self._encoded)


class _List(msgspec.Struct):
    """A list as the API server writes it."""

    metadata: dict[str, Any] = {}
    items: list[msgspec.Raw] | None = None  # null where a list is empty


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
    """The lines of a watch, of whatever length and however they were cut on their way.

    Raises:
        ServerError: A line is longer than any event can be.
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
            raise errors.ServerError(f"an event of a watch is larger than {LINE_LIMIT_BYTES} B")


def read_change(line: bytes) -> Change:
    """An event of a watch.

    Raises:
        ApiError: It is an ERROR; which one, its status says.
    """
    event = decoded(line)
    found = event.get("object")
    body: dict[str, Any] = found if isinstance(found, dict) else {}
    if event.get("type") == "ERROR":
        code = body.get("code")
        raise errors.from_status(code if isinstance(code, int) else 500, body)
    return Change(str(event.get("type")), body)


def read_page(data: bytes) -> Page:
    """A page of a list.

    Raises:
        ServerError: It is no list.
    """
    found = decoded(data, _List)
    return Page(
        items=Items(found.items or []),
        resource_version=found.metadata.get("resourceVersion", ""),
        continue_=found.metadata.get("continue", ""),
    )


def decoded(data: bytes | msgspec.Raw, kind: type[T] = dict[str, Any]) -> T:
    """A JSON object, as dictionaries or as the kind of value that is asked for.

    Raises:
        ServerError: It is none.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise errors.ServerError(
            f"the API server's answer is not a JSON object: {error}"
        ) from error
