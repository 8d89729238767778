"""Following one model: what is yielded without a change."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from moorage_cli.ask import cluster as cluster_module
from moorage_cli.ask.api_failures import Unavailable
from moorage_cli.ask.cluster import Cluster
from moorage_cli.printing.failures import Failure

MODEL = {"metadata": {"name": "iris", "resourceVersion": "7"}}


class Quiet(Cluster):
    """A cluster whose model does not change."""

    def __init__(self) -> None:
        self.watches: list[tuple[str, float]] = []

    def model(self, namespace: str, name: str) -> dict[str, Any]:
        assert (namespace, name) == ("models", "iris")
        return MODEL

    def _watched(
        self, namespace: str | None, name: str, since: str, seconds: float
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        del namespace, name
        self.watches.append((since, seconds))
        yield from ()


def test_a_model_without_changes_is_yielded_again_so_that_a_lasting_failure_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_module, "SHORT_WATCH_SECONDS", 0.0)
    cluster = Quiet()

    found = list(islice(cluster.follow("models", "iris", 600), 3))

    assert found == [MODEL] * 3
    assert cluster.watches == [("7", cluster_module.FOLLOW_SECONDS)] * 2


def test_following_ends_when_its_time_is_over() -> None:
    cluster = Quiet()

    assert list(cluster.follow("models", "iris", 0)) == [MODEL]
    assert cluster.watches == []


class Restarted(Quiet):
    """A cluster whose API server answers a read of the model for `+`, and does not for `-`."""

    def __init__(self, answers: str) -> None:
        super().__init__()
        self._answers = iter(answers)

    def model(self, namespace: str, name: str) -> dict[str, Any]:
        if next(self._answers) == "-":
            raise Unavailable("iris: the API server does not answer: connection refused")
        return super().model(namespace, name)


def test_an_api_server_that_is_restarted_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "SHORT_WATCH_SECONDS", 0.0)
    cluster = Restarted("+--+")

    assert list(islice(cluster.follow("models", "iris", 600), 2)) == [MODEL] * 2


def test_an_api_server_that_never_answers_is_a_failure() -> None:
    with pytest.raises(Failure, match="does not answer"):
        next(Restarted("-").follow("models", "iris", 600))


def test_an_api_server_that_is_away_until_the_end_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_module, "SHORT_WATCH_SECONDS", 0.0)
    feed = Restarted("+" + "-" * 1_000_000).follow("models", "iris", 0.05)

    assert next(feed) == MODEL
    with pytest.raises(Failure, match="does not answer"):
        next(feed)
