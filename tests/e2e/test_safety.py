"""Replicas of real pods that start and stop under continuous traffic: no request is lost."""

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.kubectl import KIND, Kubectl
from support.manifests import digits, digits_files, sample
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SELECTOR = "moorage.dev/model=digits"
# Longer than the 5 s for which a terminating pod's ports stay open if nobody connects any more.
STALE_SECONDS = 9


class Traffic:
    """Inference requests to a model's Service, one after the other in each thread.

    One thread keeps its connection as long as the server lets it, the others open one for each
    request.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._stop = threading.Event()
        self._body = json.dumps(sample(3)).encode()
        self.answered = 0
        self.failures: list[str] = []

    @contextmanager
    def running(self, others: int = 1) -> Iterator[None]:
        threads = [
            threading.Thread(target=self._ask, kwargs={"keeping": keeping})
            for keeping in (True, *[False] * others)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(30)

    def _ask(self, *, keeping: bool) -> None:
        connection = http.client.HTTPConnection(self._address, 8000, timeout=10)
        while not self._stop.wait(0.01):
            try:
                connection.request("POST", "/v2/models/digits/infer", self._body)
                with connection.getresponse() as answer:
                    text = answer.read()
                if answer.status == 200:
                    self.answered += 1
                else:
                    self.failures.append(f"{answer.status} {text[:200]!r}")
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{time.time():.3f} keeping={keeping}: {error!r}")
                connection.close()
            if not keeping:
                connection.close()
        connection.close()


def serve(kubectl: Kubectl, **spec: Any) -> Traffic:
    """The digits model, up to date and ready for traffic."""
    kubectl.apply(digits_files(), digits(**spec))
    kubectl.wait_condition("digits", "UpToDate", "True", seconds=120)
    address = kubectl.get("service", "digits")["spec"]["clusterIP"]
    traffic = Traffic(address)
    eventually("the Service is routed", lambda: answers(address), bool, 15)
    return traffic


def answers(address: str) -> bool:
    connection = http.client.HTTPConnection(address, 8000, timeout=2)
    try:
        connection.request("GET", "/v2/models/digits/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def pods(kubectl: Kubectl) -> set[str]:
    return {pod["metadata"]["name"] for pod in kubectl.items("pods", SELECTOR)}


def scale(kubectl: Kubectl, replicas: int) -> None:
    kubectl.run("scale", f"{KIND}/digits", f"--replicas={replicas}")
    kubectl.wait_condition("digits", "UpToDate", "True", seconds=120)
    eventually("others are gone", lambda: len(pods(kubectl)), lambda n: n == replicas, 90)


def test_no_request_is_lost_while_replicas_come_and_go(kubectl):
    traffic = serve(kubectl)

    with traffic.running():
        scale(kubectl, 3)
        scale(kubectl, 1)
        (before,) = pods(kubectl)
        kubectl.run("rollout", "restart", "deployment/digits")
        eventually(
            "another pod alone", lambda: pods(kubectl), lambda now: now and before not in now, 120
        )

    assert traffic.failures == []
    assert traffic.answered > 200


def evict(kubectl: Kubectl, pod: str) -> str:
    """The API server's answer to the eviction of a pod, as with `kubectl drain`."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": kubectl.namespace},
    }
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{pod}/eviction"
    return kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction), check=False)


def test_a_drain_takes_one_replica_at_a_time_and_loses_no_request(kubectl):
    traffic = serve(kubectl, replicas=2)
    budget = eventually(
        "the budget allows one", lambda: allowed(kubectl), lambda count: count == 1, 30
    )
    assert budget == 1
    first, second = sorted(pods(kubectl))

    with traffic.running():
        assert "Success" in evict(kubectl, first)
        assert "disruption budget" in evict(kubectl, second)
        eventually("its successor serves", lambda: allowed(kubectl), lambda n: n == 1, 90)
        assert "Success" in evict(kubectl, second)
        eventually("both are replaced", lambda: pods(kubectl) & {first, second}, is_empty, 90)
        eventually("both serve", lambda: allowed(kubectl), lambda n: n == 1, 90)

    assert traffic.failures == [], kubectl.run("get", "events", "--sort-by=.lastTimestamp")


def test_a_node_that_is_slow_to_follow_loses_no_request(kubectl):
    traffic = serve(kubectl, replicas=2)
    eventually("the budget allows one", lambda: allowed(kubectl), lambda count: count == 1, 30)
    first = min(pods(kubectl))

    # on a busy machine, one client alone would leave pauses in which the ports close
    with traffic.running(others=6):
        with kube_proxy_stopped():
            assert "Success" in evict(kubectl, first)
            time.sleep(STALE_SECONDS)  # the node still opens connections to the pod
        eventually("the pod ends", lambda: first in pods(kubectl), lambda found: not found, 90)

    assert traffic.failures == []


@contextmanager
def kube_proxy_stopped() -> Iterator[None]:
    """The node's kube-proxy applies no change, and at the end all of them."""
    record = Path("/var/lib/moorage-local/pids/kube-proxy.json")
    process = json.loads(record.read_text())["pid"]
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def allowed(kubectl: Kubectl) -> int:
    status = kubectl.get("poddisruptionbudget", "digits").get("status", {})
    return status.get("disruptionsAllowed", 0)


def is_empty(found: set[str]) -> bool:
    return not found


def test_a_single_replica_can_be_drained(kubectl):
    serve(kubectl)

    (pod,) = pods(kubectl)
    assert kubectl.get("poddisruptionbudget", "digits") == {}
    assert "Success" in evict(kubectl, pod)


def test_the_status_has_the_timings(kubectl):
    serve(kubectl)

    timings = kubectl.get(KIND, "digits")["status"]["timings"]

    assert timings["pod"] in pods(kubectl)
    parts = [timings[name] for name in ("scheduled", "started", "modelReady")]
    assert sum(parts) == timings["total"] > 0
