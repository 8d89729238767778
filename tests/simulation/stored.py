"""What the simulated API server stores, reports and answers, and which watches see it. Pure.

objects in Stored --> Write --> followers: controllers, properties
                  --> Event --> watches
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from simulation import fields

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True)
class Answer:
    """An HTTP status and a document, encoded or not."""

    code: int
    body: bytes
    retry_after: str = ""


@dataclass(slots=True)
class Stored:
    """A stored object; its body is never changed in place."""

    body: Object
    raw: bytes
    managed: dict[tuple[str, str], fields.Fields] = field(default_factory=dict)
    _fields: dict[fields.Path, Any] | None = None

    @property
    def fields(self) -> dict[fields.Path, Any]:
        """All fields that the body sets, with their values."""
        if self._fields is None:
            self._fields = fields.fields_of(self.body)
        return self._fields


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of the event log: an object after a change, and its labels before it."""

    version: int
    type: str
    key: Key
    raw: bytes
    labels: Mapping[str, str]
    before: Mapping[str, str] | None
    at: float


@dataclass(frozen=True, slots=True)
class Write:
    """A change of an object, for followers."""

    who: str
    verb: str
    plural: str
    key: Key
    before: Object | None
    after: Object | None
    part: str = ""


class Refused(Exception):
    """An error status."""

    def __init__(self, code: int, reason: str, message: str, name: str = "") -> None:
        super().__init__(message)
        self.answer = Answer(
            code,
            msgspec.json.encode(
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "status": "Failure",
                    "code": code,
                    "reason": reason,
                    "message": message,
                    "details": {"name": name},
                }
            ),
        )


def seen_as(event: Event, namespace: str, selector: str) -> str:
    """The event type that a watch with a selector sees; "" if the event is not sent."""
    if namespace and event.key[0] != namespace:
        return ""
    was = event.before is not None and matches(selector, event.before)
    is_now = event.type != "DELETED" and matches(selector, event.labels)
    if was and is_now:
        return "MODIFIED"
    if was:
        return "DELETED"
    return "ADDED" if is_now else ""


def labels_of(body: Object) -> Mapping[str, str]:
    """The labels of an object."""
    return body["metadata"].get("labels") or {}


@lru_cache(maxsize=1024)
def _requirements(selector: str) -> tuple[tuple[str, str], ...]:
    return tuple(tuple(part.split("=", 1)) for part in selector.split(",") if part)


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels match an equality-based selector."""
    return all(labels.get(name) == value for name, value in _requirements(selector))


def owners_of(body: Object) -> Iterator[str]:
    """The uids of an object's owners."""
    for each in body["metadata"].get("ownerReferences") or []:
        yield each["uid"]
