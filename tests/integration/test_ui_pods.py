"""What the page shows of pods: requests over time, logs, and the answer to a request.

A control plane without nodes has no pods to ask, so the test supplies what a cluster answers; the
server, its feed and the browser are real.
"""

import itertools
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

import pytest

from moorage_cli.ask.api_failures import Missing
from moorage_cli.page.access import Actions
from moorage_cli.page.feed import Change, Feed
from moorage_cli.page.local_access import HOST, LocalAccess
from moorage_cli.page.rows import details
from moorage_cli.page.server import PageServer
from moorage_cli.printing.failures import Failure
from support.browser import Browser
from support.page_looks import overflow_problems

pytestmark = [pytest.mark.integration, pytest.mark.browser, pytest.mark.timeout(180)]

TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
PICTURE = {"name": "picture", "datatype": "UINT8", "shape": [-1, 4, 4, 3]}
MODEL: dict[str, Any] = {
    "metadata": {"namespace": "models", "name": "iris", "generation": 1},
    "spec": {},
    "status": {
        "observedGeneration": 1,
        "model": {"name": "iris", "inputs": [TENSOR, PICTURE], "outputs": []},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Serving"}],
        "replicaStatuses": [
            {"pod": f"iris-{name}", "ready": True, "modelReady": True} for name in ("a", "b")
        ],
        "omittedReplicas": 30,
    },
}
LINES = 2500
# A number of JavaScript cannot be this one.
LARGE = 2**53 + 1


class Cluster:
    """What the page asks of a cluster."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.more: SimpleQueue[str | None] = SimpleQueue()
        self.notes: list[str] = []
        self.deleted = threading.Event()
        self.model: dict[str, Any] = MODEL
        self.values: list[Any] = [LARGE]
        self._counter = itertools.count(1)

    def changes(self) -> Iterator[Change]:
        yield "ALL", [MODEL]
        self.deleted.wait()
        yield "DELETED", MODEL
        threading.Event().wait()

    def details(self, namespace: str, name: str) -> Mapping[str, Any]:
        assert (namespace, name) == ("models", "iris")
        if self.deleted.is_set():
            raise Missing("inferencemodel models/iris: not found")
        return details(self.model, [], datetime.now(UTC))

    def log(self, namespace: str, pod: str) -> Iterator[str]:
        assert namespace == "models"
        yield from (f"{pod} line {number}" for number in range(LINES))
        yield from iter(self.more.get, None)

    def do(self, command: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if command == "top":
            return self._answer({"replicas": self._replicas(), "notes": self.notes})
        if command == "infer":
            self.asked.append(json.loads(fields["request"]))
            if len(self.asked) > 1:
                raise Failure("iris: none of 2 pods is ready: run moorage why iris")
            return self._answer({"outputs": [{"name": "y", "data": self.values}]})
        if self.notes:
            raise Failure(f"events of models: {self.notes[0]}")
        return self._answer({"events": []})

    def _replicas(self) -> list[dict[str, Any]]:
        """Each time, 50 more requests of 20 ms and one more failure."""
        if self.notes:
            return []
        n = next(self._counter)
        requests = {"total": 50 * n, "failed": n, "seconds": 1.0 * n, "timed": 50 * n}
        return [{"pod": "iris-a", "requests": requests}]

    def _answer(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"text": json.dumps(document, indent=2), "document": document, "ok": True}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def page(browser: Browser, cluster: Cluster) -> Iterator[Browser]:
    """The page of the model."""
    feed = Feed(cluster.changes)
    access = LocalAccess("test", feed, Actions(cluster.details, cluster.log, cluster.do))
    server = PageServer(HOST, 0, access)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        browser.open(f"{access.url(server.port)}!models/iris")
        browser.reads("h2", "iris")
        browser.reads("#model", "Tensors")
        yield browser
    finally:
        cluster.more.put(None)
        feed.close()
        server.shutdown()
        server.server_close()
        thread.join()


def test_requests_are_drawn_over_time_from_the_differences_of_counters(page: Browser) -> None:
    script = """return [...document.querySelectorAll(".plots .card")]
        .map((each) => each.innerText.split("\\n")[0])"""
    page.eventually("a rate", f"{script.strip()}[0]?.match(/^\\d/)")

    rate, failed, latency, total = page.run(script)
    assert rate.endswith(" requests per second")
    assert 1 < float(rate.split()[0]) < 50
    assert 0 < float(failed.split()[0]) < 1
    assert latency == "20.0 ms mean latency"
    assert total.endswith("requests since the replica started")
    page.eventually(
        "a line",
        "return document.querySelector('.plots path:not(.axis)').getTotalLength() > 0",
        seconds=40,
    )


def test_what_cannot_be_read_is_explained(page: Browser, cluster: Cluster) -> None:
    cluster.notes.append("access is denied")
    page.reads(".plots", "access is denied")

    page.run("location.reload()")
    page.reads("#model", "events of models: access is denied")


def test_a_log_is_followed_and_keeps_its_last_lines(page: Browser, cluster: Cluster) -> None:
    page.click("#model button", "iris-b")
    page.reads("#lines", f"iris-b line {LINES - 1}")

    cluster.more.put("<b>a late line</b>")
    page.reads("#lines", "<b>a late line</b>")
    assert page.run("return document.querySelector('#lines').childNodes.length") == 2000
    assert page.run("return document.querySelectorAll('#lines b').length") == 0
    pressed = "return document.querySelector('#model [aria-pressed=true]').innerText"
    assert page.run(pressed) == "iris-b"


def test_a_busy_log_is_drawn_as_fast_as_it_comes(page: Browser, cluster: Cluster) -> None:
    page.click("#model button", "iris-b")
    page.reads("#lines", f"iris-b line {LINES - 1}")
    for number in range(10_000):
        cluster.more.put(f"{number} " + "word " * 40)
    cluster.more.put("the last line")

    page.reads("#lines", "the last line")
    end = "const log = document.querySelector('#lines'); return log.scrollHeight - log.scrollTop"
    assert page.run(f"{end} - log.clientHeight < 5")


def test_a_request_is_sent_and_its_answer_or_failure_shown(
    page: Browser, cluster: Cluster
) -> None:
    body = f'{{"inputs": [{{"name": "x", "data": [{LARGE}]}}]}}'
    page.run(f"document.querySelector('#model textarea').value = '{body}'")
    page.click("#send")
    page.reads("#answer", f'"data": [{LARGE}]')
    assert cluster.asked == [json.loads(body)]

    page.click("#send")
    page.reads("#answer", "none of 2 pods is ready")
    page.run("document.querySelector('#model textarea').value = '{'")
    page.click("#send")
    page.reads("#answer", "JSON")
    assert len(cluster.asked) == 2


def test_a_request_can_have_the_numbers_that_json_lacks(page: Browser, cluster: Cluster) -> None:
    body = '{"inputs": [{"name": "x", "data": [NaN, -Infinity, 1.5]}], "id": "NaN"}'
    page.run(f"document.querySelector('#model textarea').value = '{body}'")
    page.click("#send")

    page.reads("#answer", "through the API server")
    assert str(cluster.asked[0]["inputs"][0]["data"]) == "[nan, -inf, 1.5]"


def test_a_text_that_looks_like_numbers_stays_as_it_is(page: Browser, cluster: Cluster) -> None:
    cluster.values = ["[0 1 2]", 'a "[3 4]" \\', "x" * 1_000_000]
    page.click("#send")
    page.reads("#answer", "through the API server")

    shown, _, _ = page.run("return document.querySelector('#answer').textContent").rpartition("\n")
    assert json.loads(shown)["outputs"][0]["data"] == cluster.values


def test_a_model_with_a_huge_input_has_no_form(page: Browser, cluster: Cluster) -> None:
    huge = json.loads(json.dumps(MODEL))
    huge["status"]["model"]["inputs"][0]["shape"] = [10**9]
    cluster.model = huge
    page.run("location.reload()")

    page.reads("#model", "The inputs have too many values for this form")
    page.reads("#model", "[1000000000]")


def test_each_of_many_tabs_is_live_when_it_is_seen(page: Browser, cluster: Cluster) -> None:
    address = page.run("return location.href")
    token = page.run("return sessionStorage.getItem('token')")
    with ExitStack() as tabs:
        for _ in range(7):
            tabs.enter_context(page.another_window())
            page.open(address.replace("#", f"#{token}"))
            page.reads("#live", "live")
            page.reads("#model", "Tensors")
        cluster.deleted.set()
        page.reads(".title .state", "not found")

    page.reads(".title .state", "not found")
    page.reads("#live", "live")


def test_each_of_many_tabs_follows_its_log_when_it_is_seen(
    page: Browser, cluster: Cluster
) -> None:
    address = page.run("return location.href")
    token = page.run("return sessionStorage.getItem('token')")
    page.click("#model button", "iris-a")
    page.reads("#lines", f"iris-a line {LINES - 1}")
    page.run("document.querySelector('#lines').scrollTop = 300")
    with ExitStack() as tabs:
        for _ in range(7):
            tabs.enter_context(page.another_window())
            page.open(address.replace("#", f"#{token}"))
            page.reads("#model", "Tensors")
            page.click("#model button", "iris-b")
            page.reads("#lines", f"iris-b line {LINES - 1}")

    page.reads("#live", "live")
    page.reads("#lines", f"iris-a line {LINES - 1}")
    assert page.run("return document.querySelector('#lines').childNodes.length") == 2000
    assert page.run("return document.querySelector('#lines').scrollTop") == 300
    for _ in range(60):  # those that were given up take some
        cluster.more.put("a late line")
    page.reads("#lines", "a late line")


@pytest.mark.parametrize("width", [320, 1200])
def test_words_of_any_length_fit_the_window(page: Browser, cluster: Cluster, width: int) -> None:
    pod, url = f"iris-{'p' * 58}", f"https://bucket.example/{'a' * 3000}"
    wide = json.loads(json.dumps(MODEL))
    wide["status"]["conditions"][0] |= {"status": "False", "reason": "R" * 200, "message": url}
    wide["status"]["replicaStatuses"].append({"pod": pod, "reason": "R" * 200, "message": url})
    wide["status"]["endpoints"] = [{"protocol": "OpenInference", "transport": "HTTP", "url": url}]
    wide["status"]["model"]["inputs"][1]["name"] = "x" * 200
    cluster.model = wide
    page.resize(width, 800, phone=width == 320)
    page.run("location.reload()")
    page.reads("#model", "Log")
    page.reads("#model", pod)

    assert overflow_problems(page) == []


# A user chooses a file with a picture that is red.
CHOOSE = """
const canvas = document.createElement("canvas");
const context = canvas.getContext("2d");
context.fillStyle = "rgb(255, 0, 0)";
context.fillRect(0, 0, canvas.width, canvas.height);
return new Promise((done) => canvas.toBlob((content) => {
  const chosen = new DataTransfer();
  chosen.items.add(new File([content], "red.png"));
  const input = document.querySelector("#model input[type=file]");
  input.files = chosen.files;
  input.dispatchEvent(new Event("change"));
  done(true);
}));
"""


def test_a_picture_becomes_a_tensor_and_the_rest_of_the_request_stays(page: Browser) -> None:
    body = f'{{"id": {LARGE}, "inputs": [{{"name": "picture", "datatype": "UINT8"}}]}}'
    page.run(f"document.querySelector('#model textarea').value = '{body}'")

    page.run(CHOOSE)

    read = "return document.querySelector('#model textarea').value"
    page.eventually("pixels", f"{read}.includes('255')")
    tensor = {"name": "picture", "datatype": "UINT8", "shape": [1, 4, 4, 3]}
    assert json.loads(page.run(read)) == {
        "id": LARGE,
        "inputs": [tensor | {"data": [255, 0, 0] * 16}],
    }


def test_replicas_that_the_status_omits_are_counted(page: Browser) -> None:
    assert "The status omits 30 more replicas." in page.text("#model")


def test_a_deleted_model_no_longer_has_a_state(page: Browser, cluster: Cluster) -> None:
    page.reads(".title .state", "serving")

    cluster.deleted.set()

    page.reads(".title .state", "not found")
    page.reads("[role=alert]", "inferencemodel models/iris: not found")
    assert page.run("return document.querySelector('.title').className") == "bar title"
