import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from moorage_operator.kube import errors
from moorage_operator.kube.kinds import Kind
from moorage_operator.values.observed import ObjectKey, Reference, ReferenceKind, ReferenceState
from moorage_operator.watch import references
from moorage_operator.watch.references import Lookups

KEY = ObjectKey("ns", "iris")
SECRET = Reference(ReferenceKind.SECRET, "s")
CLAIM = Reference(ReferenceKind.PERSISTENT_VOLUME_CLAIM, "c")


class Api:
    def __init__(self) -> None:
        self.answers: dict[str, Exception | None] = {}
        self.asked: list[str] = []

    async def get(self, kind: Kind, namespace: str, name: str, *, metadata_only: bool) -> Any:
        assert (namespace, metadata_only) == ("ns", True)
        assert name == {"secrets": "s", "persistentvolumeclaims": "c"}[kind.plural]
        self.asked.append(kind.plural)
        if error := self.answers.get(kind.plural):
            raise error
        return {}


class Result:
    def __init__(self) -> None:
        self.states: Mapping[Reference, ReferenceState] = {}
        self._changed = asyncio.Event()

    def take(self, key: ObjectKey, states: Mapping[Reference, ReferenceState]) -> None:
        assert key == KEY
        self.states = states
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "FIRST_SECONDS", 0.001)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, ReferenceState.EXISTS),
        (errors.NotFound("no", code=404), ReferenceState.MISSING),
        (errors.Forbidden("no", code=403), ReferenceState.FORBIDDEN),
        (errors.Unreachable("no"), ReferenceState.UNKNOWN),
    ],
)
async def test_a_lookup_determines_the_state_of_a_reference(
    error: Exception | None, expected: ReferenceState
) -> None:
    api, result = Api(), Result()
    api.answers["secrets"] = error
    lookups = Lookups(api, result.take, secret_hints=True)  # type: ignore[arg-type]

    lookups.want(KEY, frozenset({SECRET, CLAIM}))
    await result.until(lambda: bool(result.states))
    await lookups.close()

    assert result.states == {SECRET: expected, CLAIM: ReferenceState.EXISTS}


async def test_without_secret_hints_no_secret_is_requested() -> None:
    api, result = Api(), Result()
    lookups = Lookups(api, result.take)  # type: ignore[arg-type]

    lookups.want(KEY, frozenset({SECRET, CLAIM}))
    await result.until(lambda: bool(result.states))
    await lookups.close()

    assert result.states == {SECRET: ReferenceState.FORBIDDEN, CLAIM: ReferenceState.EXISTS}
    assert "secrets" not in api.asked


async def test_a_missing_object_is_found_once_it_exists() -> None:
    api, result = Api(), Result()
    api.answers["secrets"] = errors.NotFound("no", code=404)
    lookups = Lookups(api, result.take, secret_hints=True)  # type: ignore[arg-type]
    lookups.want(KEY, frozenset({SECRET}))
    await result.until(lambda: result.states == {SECRET: ReferenceState.MISSING})

    api.answers.clear()

    await result.until(lambda: result.states == {SECRET: ReferenceState.EXISTS})
    await lookups.close()


async def test_lookups_stop_when_no_references_are_wanted() -> None:
    api, result = Api(), Result()
    lookups = Lookups(api, result.take, secret_hints=True)  # type: ignore[arg-type]
    lookups.want(KEY, frozenset({SECRET}))
    await result.until(lambda: len(api.asked) >= 2)

    lookups.want(KEY, frozenset())
    assert result.states == {}  # what was found would be outdated when a pod waits again
    for _ in range(3):
        await asyncio.sleep(0)
    asked = len(api.asked)
    lookups.want(ObjectKey("ns", "iris"), frozenset({CLAIM}))
    await result.until(lambda: CLAIM in result.states)
    await lookups.close()

    assert api.asked[asked:].count("secrets") == 0


@pytest.mark.parametrize(
    ("secret", "claim", "seconds"),
    [
        (ReferenceState.EXISTS, ReferenceState.EXISTS, 300),
        (ReferenceState.FORBIDDEN, ReferenceState.EXISTS, 300),
        (ReferenceState.EXISTS, ReferenceState.MISSING, 15),
        (ReferenceState.UNKNOWN, ReferenceState.EXISTS, 15),
    ],
)
def test_only_a_missing_reference_is_looked_up_often(
    secret: ReferenceState, claim: ReferenceState, seconds: float
) -> None:
    assert references.longest_pause({SECRET: secret, CLAIM: claim}) == seconds
