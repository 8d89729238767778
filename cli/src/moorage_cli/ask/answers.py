"""Reads responses of the Kubernetes API: within limits, and only if they have its form.

A kubeconfig may name any server. One that is not a Kubernetes API, such as the login page of a
proxy, is reported as such, and its answers are never taken for objects.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

import urllib3

from moorage_cli.ask.api_failures import MalformedAnswer, raise_status
from moorage_cli.manifests.fields import mapping

__all__ = [
    "RETRIES",
    "check_deletion",
    "groups_of",
    "items_of",
    "lines_of",
    "list_of",
    "object_of",
    "watch_events_of",
]

CHUNK = 1 << 16
# 10,000 models with full statuses have a tenth of this.
ANSWER_LIMIT = 1 << 28
LINE_LIMIT = 1 << 24
READ_SECONDS = 60.0
RETRY_AFTER_LIMIT_SECONDS = 5.0
SHOWN = 60


class _Retries(urllib3.Retry):
    """Waits as long as an overloaded API server asks for, within a limit."""

    def get_retry_after(self, response: Any) -> float | None:
        """The seconds to wait, or None if the response does not ask for it."""
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, RETRY_AFTER_LIMIT_SECONDS)


# A read is repeated once, because the server may just have closed an idle connection. A redirect
# is not followed, because an API server sends none.
RETRIES = _Retries(
    total=3,
    connect=0,
    read=1,
    redirect=0,
    other=0,
    allowed_methods=["GET"],
    raise_on_redirect=False,
    raise_on_status=False,
)


def object_of(answer: Any) -> dict[str, Any]:
    """The object of a response.

    Raises:
        MalformedAnswer: It is not an object with a name.
    """
    return _object(_document(answer))


def list_of(answer: Any) -> dict[str, Any]:
    """The list of a response, with its items and its metadata.

    Raises:
        MalformedAnswer: It is not a list of objects with names.
    """
    found = mapping(_document(answer))
    # an empty list of Go may be null
    items = [] if "items" in found and found["items"] is None else found.get("items")
    if not isinstance(items, list) or not isinstance(found.get("metadata"), Mapping):
        raise MalformedAnswer("it is not a list of objects")
    return {**found, "items": [_object(each) for each in cast("list[Any]", items)]}


def items_of(answer: Any) -> list[dict[str, Any]]:
    """The items of a list.

    Raises:
        MalformedAnswer: It is not a list of objects with names.
    """
    return list_of(answer)["items"]


def groups_of(answer: Any) -> frozenset[str]:
    """The names of a list of API groups.

    Raises:
        MalformedAnswer: It is not such a list.
    """
    groups = mapping(_document(answer)).get("groups")
    if not isinstance(groups, list):
        raise MalformedAnswer("it is not a list of API groups")
    return frozenset(str(mapping(each).get("name")) for each in cast("list[Any]", groups))


def check_deletion(answer: Any) -> None:
    """Do nothing if a response confirms a deletion: with the object, or with a Status.

    Raises:
        MalformedAnswer: It is neither.
    """
    if not isinstance(mapping(_document(answer)).get("kind"), str):
        raise MalformedAnswer("it does not confirm the deletion")


def watch_events_of(answer: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The type and the object of each event of a watch, until the server ends it.

    Raises:
        Expired: The start of the watch is too old.
        Failure: The API server reports an error.
        MalformedAnswer: It is not a watch.
    """
    for line in lines_of(answer):
        if not line.strip():
            continue
        event = mapping(_parsed(line))
        kind, about = event.get("type"), event.get("object")
        if kind == "ERROR":
            raise_status(mapping(about))
        if kind == "BOOKMARK":
            continue
        if not isinstance(kind, str):
            raise MalformedAnswer(f"it is not a watch: {_shown(line)}")
        yield kind, _object(about)


def lines_of(answer: Any) -> Iterator[bytes]:
    """The lines of a response as they arrive; a line that is too long is divided."""
    left = bytearray()
    while chunk := answer.read1(CHUNK):
        left += chunk
        *whole, last = left.split(b"\n")
        yield from map(bytes, whole)
        left = last
        if len(left) > LINE_LIMIT:
            yield bytes(left)
            left = bytearray()
    if left:
        yield bytes(left)


def _document(answer: Any) -> Any:
    """The JSON value of a response."""
    try:
        body = _body(answer)
    except BaseException:
        answer.close()  # another request must not find the rest of it
        raise
    answer.release_conn()
    return _parsed(body)


def _body(answer: Any) -> bytes:
    deadline = time.monotonic() + READ_SECONDS
    body = bytearray()
    while chunk := answer.read1(CHUNK):
        body += chunk
        if len(body) > ANSWER_LIMIT:
            raise MalformedAnswer(f"it is larger than {ANSWER_LIMIT >> 20} MiB")
        if time.monotonic() > deadline:
            raise MalformedAnswer(f"it does not end within {READ_SECONDS:g} seconds")
    return bytes(body)


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = _shown(text) if text.strip() else "it is empty"
        raise MalformedAnswer(f"it is not JSON: {shown}") from error


def _object(value: Any) -> dict[str, Any]:
    name = mapping(mapping(value).get("metadata")).get("name")
    if not (isinstance(name, str) and name):
        raise MalformedAnswer("it is not an object with metadata.name")
    return cast("dict[str, Any]", value)


def _shown(text: bytes) -> str:
    return repr(text[:SHOWN].decode("utf-8", "replace"))
