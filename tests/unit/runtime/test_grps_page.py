"""The page at the root: its figures from real metrics, and what strange names do to it."""

import re

from prometheus_client import CollectorRegistry

from moorage_runtime.frontends.grps_page import GrpsPage
from moorage_runtime.frontends.http.message import HttpRequest
from moorage_runtime.metrics import InferenceMetrics, new_registry


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def cells(answer):
    return [
        re.findall(r"<td>(.*?)</td>", row)
        for row in re.findall(r"<tr>(<td>.*?)</tr>", answer.body.decode())
    ]


def ask(page, method="GET"):
    return page.handle(HttpRequest(method, "/", "", {}, b""))


def test_rates_are_of_the_time_since_the_page_was_read():
    registry, clock = CollectorRegistry(), Clock()
    metrics = InferenceMetrics(registry)
    page = GrpsPage(registry, clock)
    for _ in range(30):
        metrics.record("m", "1", "ok", 0.002)
    for _ in range(10):
        metrics.record("m", "1", "ok", 0.02)
        metrics.record("m", "1", "ModelFailed", 0.02)

    clock.now += 10
    (row,) = cells(ask(page))
    assert row[:7] == ["m", "1", "50", "5.0", "20.0%", "6.50 ms", "up to 25 ms"]
    assert row[7] == "2.5 ms: 75.0%, 5 ms: 75.0%, 10 ms: 75.0%, 25 ms: 100.0%"

    clock.now += 5
    (row,) = cells(ask(page))
    assert row[2:4] == ["50", "0.0"]


def test_reading_twice_at_once_shows_the_same_rates():
    registry, clock = CollectorRegistry(), Clock()
    metrics = InferenceMetrics(registry)
    page = GrpsPage(registry, clock)
    metrics.record("m", "1", "ok", 0.002)
    clock.now += 10
    first = ask(page).body
    clock.now += 0.5
    assert ask(page).body == first


def test_a_request_slower_than_every_bucket_is_over_the_last():
    registry, clock = CollectorRegistry(), Clock()
    metrics = InferenceMetrics(registry)
    metrics.record("m", "1", "ok", 100.0)
    clock.now += 10
    (row,) = cells(ask(GrpsPage(registry, clock)))
    assert row[6:] == ["over 10000 ms", ""]


def test_requests_for_unknown_models_share_a_row():
    registry = CollectorRegistry()
    metrics = InferenceMetrics(registry)
    metrics.record("a", "1", "ModelNotFound", 0.1)
    metrics.record("b", "2", "VersionNotFound", 0.1)
    (row,) = cells(ask(GrpsPage(registry)))
    assert row[:3] == ["(unknown)", "", "2"]
    assert row[4] == "100.0%"


def test_names_are_escaped():
    registry = CollectorRegistry()
    InferenceMetrics(registry).record("<script>", "1", "ok", 0.1)
    assert cells(ask(GrpsPage(registry)))[0][0] == "&lt;script&gt;"


def test_the_page_is_html_with_processor_and_memory():
    answer = ask(GrpsPage(new_registry()))
    assert (answer.status, answer.content_type) == (200, b"text/html; charset=utf-8")
    memory = re.search(rb"cpu: [\d.]+% of a core; memory: ([\d.]+) MiB", answer.body)
    assert float(memory[1]) > 1


def test_a_wrong_method_names_the_right_one():
    answer = ask(GrpsPage(CollectorRegistry()), "POST")
    assert (answer.status, dict(answer.headers)) == (405, {b"Allow": b"GET, HEAD"})
