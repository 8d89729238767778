"""Following one model: what is yielded without a change."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from moorage_cli.ask import cluster as cluster_module
from moorage_cli.ask.cluster import Cluster

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
