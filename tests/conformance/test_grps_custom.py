"""GRPS's custom HTTP and its ways to request a stream, with a user's own models."""

import json
from pathlib import Path

import httpx
import pytest

from support.runtime import running, serving
from support.waiting import eventually

pytestmark = pytest.mark.conformance

SHOUT = """\
from moorage_runtime.backends.python import PythonModel
from moorage_runtime.errors import InvalidRequest
from moorage_runtime.inference import HttpReply


class Shout(PythonModel):
    http_path = "/shout"

    def predict(self, inputs, request):
        return {"str_data": ["plain"]}

    def stream(self, inputs, request):
        yield {"str_data": ["one"]}
        yield {"str_data": ["two"]}

    def http(self, call):
        if call.query.get("parts"):
            return HttpReply(self.parts(call), content_type="text/event-stream")
        if not call.body:
            raise InvalidRequest("the body is empty, expected text")
        if call.body == b"break":
            raise ValueError("broken")
        if call.body == b"odd":
            return "no reply"
        mark = call.headers.get("x-mark", "!")
        return HttpReply(call.body.upper() + mark.encode(), 202, "text/plain")

    def parts(self, call):
        for number in range(int(call.query["parts"])):
            yield b"data: %d\\n\\n" % number
"""
PREDICT = SHOUT.replace('http_path = "/shout"', 'http_path = "/loud"\n    http_predict = True')


def write(folder: Path, **models: str) -> Path:
    for name, source in models.items():
        (folder / name).mkdir()
        (folder / name / "model.py").write_text(source)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("models"), quiet=SHOUT, loud=PREDICT)
    (folder / "quiet" / "model.yaml").write_text("default: true")
    with serving(folder) as runtime:
        yield runtime


def test_a_model_answers_at_its_own_path(server):
    answer = server.post("/shout", content=b"hello", headers={"X-Mark": "?"})

    assert (answer.status_code, answer.text) == (202, "HELLO?")
    assert answer.headers["content-type"] == "text/plain"


def test_a_custom_response_may_be_streamed(server):
    answer = server.get("/shout?parts=3")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.text == "data: 0\n\ndata: 1\n\ndata: 2\n\n"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "the body is empty, expected text"),
        (b"break", 500, "ValueError: broken"),
        (b"odd", 500, "returned str"),
    ],
)
def test_an_error_of_the_model_becomes_a_response(server, body, status, words):
    answer = server.post("/shout", content=body)

    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_only_get_and_post_reach_the_model(server):
    answer = httpx.put(f"http://{server.http}/shout", content=b"x")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/shout?model=quiet", 202),
        ("/shout?model=quiet-1", 202),
        ("/shout?model=loud", 404),
        ("/shout?model=nosuch", 404),
        ("/loud", 202),
        ("/nosuch", 404),
        ("/shout/more", 404),
    ],
)
def test_a_custom_path_selects_its_model_by_path_or_query(server, path, status):
    assert server.post(path, content=b"x").status_code == status


def test_a_model_may_take_over_the_predict_path(server):
    own = server.post("/grps/v1/infer/predict?model=loud", content=b"x")
    ordinary = server.post("/grps/v1/infer/predict?model=quiet", json={"str_data": "x"})

    assert own.text == "X!"
    assert ordinary.json()["str_data"] == "plain"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('http_path = "shout"', "http_path is 'shout'"),
        ('http_path = "/v2/x"', "http_path is '/v2/x'"),
        ('http_path = "/"', "http_path is '/'"),
        ("http_predict = True", "http_predict requires http_path"),
    ],
)
def test_a_reserved_path_is_refused(tmp_path, line, words):
    write(tmp_path, m=SHOUT.replace('http_path = "/shout"', line))
    with running(f"--model-repository={tmp_path}") as runtime:
        answer = eventually(
            "the load failed",
            lambda: runtime.get("/v2/models/m/ready").json(),
            lambda seen: "error" in seen,
            20,
        )

    assert words in answer["error"]


@pytest.mark.parametrize(
    ("options", "request_", "streams"),
    [
        ([], {"params": {"streaming": "TRUE"}}, True),
        ([], {"params": {"streaming": "no"}}, False),
        (["--grps-streaming=header"], {"headers": {"streaming": "true"}}, True),
        (["--grps-streaming=header"], {"params": {"streaming": "true"}}, False),
        (["--grps-streaming=body"], {"json": {"str_data": "x", "streaming": True}}, True),
        (["--grps-streaming=body"], {"json": {"str_data": "x", "streaming": "true"}}, False),
        (
            ["--grps-streaming=header", "--grps-streaming-key=X-Parts"],
            {"headers": {"x-parts": "True"}},
            True,
        ),
    ],
)
def test_a_stream_is_requested_as_configured(tmp_path, options, request_, streams):
    write(tmp_path, m=SHOUT)
    options = [*options, "--grps-streaming-content-type=text/event-stream"]
    with serving(tmp_path, *options) as runtime:
        answer = runtime.post("/grps/v1/infer/predict", **{"json": {"str_data": "x"}, **request_})

    texts = [json.loads(line)["str_data"] for line in answer.text.splitlines()]
    assert texts == (["one", "two"] if streams else ["plain"])
    kind = "text/event-stream" if streams else "application/json"
    assert answer.headers["content-type"] == kind
