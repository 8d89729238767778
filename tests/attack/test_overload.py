"""At several times its capacity, the server refuses requests at once, serves the rest, and
recovers.
"""

import http.client
import json
import os
import statistics
import threading
import time
from dataclasses import dataclass, field

import pytest

from support.attack import HEALTH_SECONDS, health_checks, longest, resident_bytes
from support.runtime import serving

pytestmark = pytest.mark.attack

SECONDS = float(os.environ.get("ATTACK_SECONDS", "3"))
MIB = 1024 * 1024
MODEL_SECONDS = 0.02
WAITING = 4
CLIENTS = 24
BODY = json.dumps(
    {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
).encode()


@dataclass
class Seen:
    seconds: dict[int, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def ask(client):
    begun = time.monotonic()
    client.request("POST", "/v2/models/slow/infer", BODY)
    answer = client.getresponse()
    answer.read()
    return answer.status, time.monotonic() - begun


def ask_until(deadline, port, seen):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < deadline:
        try:
            status, seconds = ask(client)
        except OSError as error:
            seen.failures.append(repr(error))
            return
        seen.seconds.setdefault(status, []).append(seconds)
        if status != 200:
            time.sleep(MODEL_SECONDS)  # refused clients return, at three times the capacity
    client.close()


def test_overload_is_refused_at_once_and_leaves_nothing_behind(repository):
    with serving(repository, "--threads=1", f"--queue-size={WAITING}") as runtime:
        load(runtime, 0.5)
        before = resident_bytes(runtime.process.pid)
        with health_checks(runtime.http_port, runtime.process.pid) as waits:
            seen = load(runtime, SECONDS)
        client = http.client.HTTPConnection("127.0.0.1", runtime.http_port, timeout=30)
        after = [ask(client) for _ in range(5)]
        client.close()
        memory = resident_bytes(runtime.process.pid) - before

    times = {
        status: [value for each in seen for value in each.seconds.get(status, [])]
        for status in (200, 503)
    }
    assert [each.failures for each in seen] == [[]] * CLIENTS
    assert len(times[503]) > len(times[200])
    # a refusal does not wait; an accepted request waits only for those before it
    assert statistics.median(times[503]) < statistics.median(times[200])
    assert statistics.median(times[200]) < 5 * (WAITING + 2) * MODEL_SECONDS
    assert longest(waits) < HEALTH_SECONDS
    assert memory < 32 * MIB
    assert [status for status, _ in after] == [200] * 5
    assert min(seconds for _, seconds in after) < 3 * MODEL_SECONDS


def load(runtime, seconds):
    seen = [Seen() for _ in range(CLIENTS)]
    deadline = time.monotonic() + seconds
    threads = [
        threading.Thread(target=ask_until, args=(deadline, runtime.http_port, each))
        for each in seen
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen
