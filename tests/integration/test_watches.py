"""Watches without events, because nothing happens or because a proxy swallows the data."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage_operator.kube.client import REQUEST_TIMEOUT_SECONDS
from support import quick_watches
from support.operator_cluster import Api, OperatorProcess, eventually, model
from support.swallowing_proxy import SwallowingProxy, kubeconfig_through, swallowing_proxy

pytestmark = pytest.mark.integration

PROGRAM = (Path(quick_watches.__file__),)
NOTICED_SECONDS = 2 * quick_watches.BROKEN_SECONDS
MENDED_SECONDS = NOTICED_SECONDS + 2 * REQUEST_TIMEOUT_SECONDS
"""Time for a read and a write, each of which first uses a pooled connection that is dead too."""


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[SwallowingProxy]:
    """A proxy in front of the API server."""
    with swallowing_proxy(kubeconfig) as made:
        yield made


@pytest.fixture
def behind(
    kubeconfig: Path, api: Api, proxy: SwallowingProxy, tmp_path: Path
) -> Iterator[OperatorProcess]:
    """An operator with short watches that only reaches the API server through the proxy."""
    through = kubeconfig_through(proxy, kubeconfig, tmp_path)
    options = ("--namespaces", api.namespace)
    operator = OperatorProcess(through, tmp_path / "log", options, program=PROGRAM)
    operator.start()
    try:
        operator.wait_ready()
        yield operator
    finally:
        operator.stop()


def test_watches_without_objects_are_healthy(behind: OperatorProcess) -> None:
    deadline = time.monotonic() + 5 * quick_watches.BROKEN_SECONDS
    answers: set[tuple[int, str]] = set()

    while time.monotonic() < deadline:
        answers |= {behind.ask("/livez"), behind.ask("/readyz")}

    assert answers == {(200, "ok")}
    ended = ("moorage_watch_restarts_total", 'reason="ended"')
    for resource in ("pods", "horizontalpodautoscalers", "networkpolicies"):
        assert behind.metric(*ended, f'resource="{resource}"') >= 5
    assert behind.metric("moorage_watch_restarts_total", 'reason="failed"') == 0
    assert behind.metric("moorage_api_requests_total", 'verb="list"') < 30


def test_a_watch_without_data_is_reopened_by_the_same_process(
    behind: OperatorProcess, api: Api, proxy: SwallowingProxy
) -> None:
    api.apply(model("iris"))
    eventually("a Deployment", lambda: api.get("Deployment", "iris"))

    proxy.swallow()
    api.delete("Deployment", "iris")
    api.apply(model("rose"))

    failed = ("moorage_watch_restarts_total", 'reason="failed"', 'resource="deployments"')
    eventually("the watch has failed", lambda: behind.metric(*failed), seconds=NOTICED_SECONDS)
    seconds = MENDED_SECONDS
    eventually("children are watched", lambda: api.get("Deployment", "iris"), seconds=seconds)
    eventually("models are watched", lambda: api.get("Deployment", "rose"), seconds=seconds)
    assert behind.is_running
    assert behind.ask("/livez") == (200, "ok")
    behind.wait_ready()


def test_watches_that_stay_broken_make_the_process_unready_until_they_work(
    behind: OperatorProcess, api: Api, proxy: SwallowingProxy
) -> None:
    proxy.swallow(new=True)

    def broken() -> set[str]:
        return {
            line.split()[3] for line in behind.ask("/readyz")[1].splitlines() if "broken" in line
        }

    expected = {"pods", "deployments", "inferencemodels"}
    eventually(
        "the failed watches are reported", lambda: expected <= broken(), seconds=NOTICED_SECONDS
    )
    assert behind.ask("/livez") == (200, "ok")

    proxy.pass_new()
    behind.wait_ready()
    api.apply(model("late"))
    eventually("models are watched", lambda: api.get("Deployment", "late"), seconds=MENDED_SECONDS)
    assert behind.is_running
