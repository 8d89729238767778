"""The status page: its figures from real metrics, and unusual model names."""

import math
import re

import pytest
from prometheus_client import CollectorRegistry

from moorage_runtime.dataplane.metrics import InferenceMetrics, new_registry
from moorage_runtime.frontends.grps import page_figures
from moorage_runtime.frontends.grps.page import GrpsPage
from moorage_runtime.frontends.http.message import HttpRequest


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def cells(answer):
    """The texts of each row, including the title of the chart."""
    rows = re.findall(r"<tr>(<td.*?)</tr>", answer.body.decode())
    return [
        [re.sub(r"<.*?>", "", cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row)]
        for row in rows
    ]


def cards(answer):
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?) <small>(.*?)</small>", answer.body.decode())
    return {name: f"{value} {unit}".strip() for name, value, unit in found}


def ask(page, method="GET"):
    return page.handle(HttpRequest(method, "/", "", {}, b""))


def test_rates_are_since_the_page_was_last_read():
    registry, clock = CollectorRegistry(), Clock()
    metrics = InferenceMetrics(registry)
    page = GrpsPage(registry, clock)
    for _ in range(30):
        metrics.record("m", "1", "ok", 0.002)
    for _ in range(10):
        metrics.record("m", "1", "ok", 0.02)
        metrics.record("m", "1", "ModelFailed", 0.02)

    clock.now += 10
    answer = ask(page)
    (row,) = cells(answer)
    assert row[:2] == ["m", "1"]
    assert row[3:7] == ["50", "5.0", "20.0%", "6.5 ms"]
    assert row[7:10] == ["2 ms", "24.4 ms", "25 ms"]
    assert "2.5 ms: 75.0%, 5 ms: 75.0%, 10 ms: 75.0%, 25 ms: 100.0%" in row[10]
    assert cards(answer)["qps"] == "5.0"
    assert cards(answer)["fail rate"] == "20.0%"

    clock.now += 5
    (row,) = cells(ask(page))
    assert row[3:5] == ["50", "0.0"]


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
    assert row[7:10] == ["over 10 s"] * 3


@pytest.mark.parametrize(
    ("buckets", "wanted", "expected"),
    [
        ([], 0.5, None),
        ([(0.1, 0), (math.inf, 0)], 0.5, None),
        ([(0.1, 10), (math.inf, 10)], 0.5, 0.05),
        ([(0.1, 10), (math.inf, 10)], 1.0, 0.1),
        ([(0.1, 0), (0.2, 10), (math.inf, 10)], 0.5, 0.15),
        ([(0.1, 5), (0.2, 5), (0.4, 10), (math.inf, 10)], 0.75, 0.3),
        ([(0.1, 5), (math.inf, 10)], 0.99, math.inf),
    ],
)
def test_percentiles_lie_on_a_line_within_their_bucket(buckets, wanted, expected):
    assert page_figures.percentile(buckets, wanted) == pytest.approx(expected)


def test_requests_for_unknown_models_share_a_row():
    registry = CollectorRegistry()
    metrics = InferenceMetrics(registry)
    metrics.record("a", "1", "ModelNotFound", 0.1)
    metrics.record("b", "2", "VersionNotFound", 0.1)
    (row,) = cells(ask(GrpsPage(registry)))
    assert row[:4] == ["(unknown)", "", "no such model", "2"]
    assert row[5] == "100.0%"


def test_every_known_version_has_a_row_the_busiest_first():
    registry = CollectorRegistry()
    metrics = InferenceMetrics(registry)
    metrics.watch(lambda: [("a", "1", True, 0), ("b", "2", False, None), ("c", "1", True, 0)])
    metrics.record("c", "1", "ok", 0.1)
    answer = ask(GrpsPage(registry))
    assert [row[:3] for row in cells(answer)] == [
        ["c", "1", "● ready"],
        ["a", "1", "● ready"],
        ["b", "2", "○ not ready"],
    ]
    assert cards(answer)["versions ready"] == "2 of 3"
    assert cells(answer)[1][5:10] == ["&ndash;"] * 5


def test_the_page_of_a_server_without_models_says_so():
    assert cells(ask(GrpsPage(CollectorRegistry()))) == [["no models yet"]]


def test_names_are_escaped():
    registry = CollectorRegistry()
    InferenceMetrics(registry).record("<script>", "<b>", "ok", 0.1)
    body = ask(GrpsPage(registry)).body
    assert b"&lt;script&gt;</td>" in body
    assert b"&lt;b&gt;</td>" in body
    assert body.count(b"<script>") == 1


def test_the_html_page_shows_processor_and_memory():
    answer = ask(GrpsPage(new_registry()))
    assert (answer.status, answer.content_type) == (200, b"text/html; charset=utf-8")
    assert re.fullmatch(r"[\d.]+% of a core", cards(answer)["cpu"])
    assert float(cards(answer)["memory"].removesuffix(" MiB").replace(",", "")) > 1


def test_the_page_loads_nothing_from_elsewhere():
    body = ask(GrpsPage(new_registry())).body.decode()
    assert re.findall(r"(?:src|href)=\"(.*?)\"", body) == ["data:,", "/metrics"]
    assert "//" not in body.replace("</", "")


def test_a_wrong_method_names_the_right_one():
    answer = ask(GrpsPage(CollectorRegistry()), "POST")
    assert (answer.status, dict(answer.headers)) == (405, {b"Allow": b"GET, HEAD"})
