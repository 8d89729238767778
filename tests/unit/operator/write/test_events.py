import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator.api.v1alpha1 import parse
from moorage_operator.kube import errors
from moorage_operator.kube.kinds import EVENTS, Kind
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.plan import PlannedEvent
from moorage_operator.write import events
from moorage_operator.write.events import EventPoster

BODY = {"metadata": {"name": "iris", "namespace": "ns", "uid": "u"}, "spec": {}}
RECORD = ModelRecord(ObjectKey("ns", "iris"), parse(BODY), "1", {})
FAILED = PlannedEvent("Warning", "ModelLoadFailed", "corrupt")


class Api:
    def __init__(self) -> None:
        self.posted: list[Mapping[str, Any]] = []
        self.error: Exception | None = None
        self.changed = asyncio.Event()

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Mapping[str, Any]:
        assert kind is EVENTS
        self.posted.append(body)
        self.changed.set()
        if self.error:
            raise self.error
        return body

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.posted) < count:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SPACING_SECONDS", 0.0)


async def test_an_event_names_its_model_and_is_posted_once_in_ten_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    api, now = Api(), [0.0]
    poster = EventPoster(
        api,  # type: ignore[arg-type]
        instance="pod",
        clock=lambda: now[0],
        now=lambda: datetime(2026, 1, 1, 12, tzinfo=UTC),
    )
    task = asyncio.ensure_future(poster.run())
    now[0] = 100
    poster.post(RECORD, FAILED)
    now[0] = 699
    poster.post(RECORD, FAILED)
    await api.until(1)
    now[0] = 700
    api.error = errors.Forbidden("no", code=403)
    poster.post(RECORD, FAILED)
    await api.until(2)
    api.error = None
    poster.post(RECORD, PlannedEvent("Normal", "Serving", "x" * 2000))
    await api.until(3)
    task.cancel()

    first, _, last = api.posted
    name = first["metadata"]["name"]
    assert re.fullmatch(r"iris\.[0-9a-f]{16}", name)
    assert first == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "ns"},
        "eventTime": "2026-01-01T12:00:00.000000Z",
        "reportingController": "moorage.dev/operator",
        "reportingInstance": "pod",
        "action": "Reconcile",
        "type": "Warning",
        "reason": "ModelLoadFailed",
        "note": "corrupt",
        "regarding": {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceModel",
            "namespace": "ns",
            "name": "iris",
            "uid": "u",
        },
    }
    assert len(last["note"]) == events.NOTE_LIMIT_BYTES
    [refused] = caplog.records
    assert (refused.message, refused.__dict__["error"]) == ("event not posted", "no")


def stopped_poster() -> EventPoster:
    """A poster that keeps its events in the queue."""
    return EventPoster(
        Api(),  # type: ignore[arg-type]
        instance="pod",
        clock=lambda: 0.0,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )


def posted(name: str, message: str) -> Mapping[str, Any]:
    """The body of an event about a model of this name."""
    poster = stopped_poster()
    metadata = {**BODY["metadata"], "name": name}
    record = ModelRecord(ObjectKey("ns", name), parse({**BODY, "metadata": metadata}), "1", {})
    poster.post(record, PlannedEvent("Normal", "Serving", message))
    return poster._queue.get_nowait()


# The API server counts the bytes of a note, and refuses it if there are more than 1024.
@pytest.mark.parametrize("message", ["x" * 1024, "モデル" * 300, "x" + "é" * 600, "é" * 512])
def test_a_note_has_at_most_1024_bytes(message: str) -> None:
    note = posted("iris", message)["note"]

    assert message.startswith(note)
    assert 1021 <= len(note.encode()) <= 1024


@pytest.mark.parametrize("name", ["a" * 199 + ".b" * 20, "a" * 198 + "--" + "b" * 20, "a" * 250])
def test_the_name_of_an_event_is_valid_for_every_name_of_a_model(name: str) -> None:
    found = posted(name, "")["metadata"]["name"]

    assert len(found) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", found)


async def test_a_flood_of_events_is_limited() -> None:
    poster = stopped_poster()

    for number in range(events.QUEUE + 5):
        poster.post(RECORD, PlannedEvent("Normal", "Serving", str(number)))

    assert poster._queue.qsize() == events.QUEUE
