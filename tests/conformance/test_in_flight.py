"""The gauge of requests in flight, which autoscalers use, from outside the process."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.held_model import INPUT, write_held
from support.runtime import Runtime, serving
from support.waiting import eventually

pytestmark = pytest.mark.conformance

SECONDS = 20


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    repository = write_held(tmp_path, "held")
    with serving(repository, f"--workers={request.param}", "--threads=1") as server:
        yield server


def in_flight(runtime: Runtime) -> float | None:
    """The gauge, or None without one."""
    found = re.search(
        r'^moorage_inferences_in_flight{model="held",version="1"} (\S+)$',
        runtime.get("/metrics").text,
        re.MULTILINE,
    )
    return float(found[1]) if found else None


def test_requests_that_run_or_wait_are_in_flight_until_they_are_answered(
    held: Runtime, tmp_path: Path
) -> None:
    assert in_flight(held) == 0

    with ThreadPoolExecutor(3) as clients:
        asked = [clients.submit(held.post, "/v2/models/held/infer", json=INPUT) for _ in range(3)]
        try:
            eventually("all three", lambda: in_flight(held), lambda now: now == 3, SECONDS)
            unknown = held.post("/v2/models/nosuch/infer", json=INPUT)
        finally:
            (tmp_path / "go").touch()

    assert unknown.status_code == 404
    assert [answer.result().status_code for answer in asked] == [200] * 3
    assert in_flight(held) == 0
    assert "nosuch" not in held.get("/metrics").text
