import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from moorage_operator.probe.protocols.oip_rest import OipRest
from moorage_operator.probe.transport.http_client import HttpClient
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, ServerInfo, TensorInfo
from moorage_operator.values.words import MESSAGE_LIMIT
from support.api_server import serving
from support.probe_targets import byte_server, target

READY = "/v2/models/iris/ready"
LIVE = "/v2/health/live"

Routes = Mapping[str, tuple[int, str]]
OIP = {"/v2": (200, '{"name":"s","version":"1","extensions":[]}')}


async def asked(routes: Routes, ask: Callable[[OipRest, Any], Any], **fields: Any) -> Any:
    """The driver's answer for a server with these paths, and 404 for others."""

    async def answer(request: web.Request) -> web.Response:
        code, body = routes.get(request.path, (404, ""))
        return web.Response(status=code, text=body)

    async with serving(answer) as server:
        http = HttpClient()
        driver = OipRest(http)
        try:
            return await ask(driver, target(server, **fields))
        finally:
            await http.close()


# What real servers answer to "is the model ready?"
ANSWERS = [
    ("empty body: Triton, MLServer", (200, ""), True, AnswerReason.READY, ""),
    ("ready true: KServe", (200, '{"name":"iris","ready":true}'), True, AnswerReason.READY, ""),
    ("live true, as in the specification", (200, '{"live":true}'), True, AnswerReason.READY, ""),
    ("not JSON", (200, "OK"), True, AnswerReason.READY, ""),
    ("not an object", (200, "[false]"), True, AnswerReason.READY, ""),
    ("ready false in a 200", (200, '{"ready":false}'), False, AnswerReason.NOT_READY, "HTTP 200"),
    ("Triton: 400", (400, ""), False, AnswerReason.NOT_READY, "HTTP 400"),
    (
        "KServe: 503 with an error",
        (503, '{"error":"Model with name iris is not ready."}'),
        False,
        AnswerReason.NOT_READY,
        "Model with name iris is not ready.",
    ),
    (
        "bundled runtime: a load that failed",
        (503, '{"name":"iris","ready":false,"error":"not an ONNX model"}'),
        False,
        AnswerReason.LOAD_FAILED,
        "not an ONNX model",
    ),
    (
        "a server that names the state",
        (503, '{"ready":false,"state":"LOADING","error":"30 %"}'),
        False,
        AnswerReason.LOADING,
        "30 %",
    ),
    (
        "bundled runtime: a load without a known activity",
        (503, '{"name":"iris","ready":false,"state":"LOADING"}'),
        False,
        AnswerReason.LOADING,
        "the server is loading it",
    ),
    (
        "a server that is about to end",
        (503, '{"ready":false,"state":"UNLOADED","error":"the server is shutting down"}'),
        False,
        AnswerReason.NOT_READY,
        "shutting down",
    ),
    ("a word", (200, "OK"), True, AnswerReason.READY, ""),
    ("a bare false", (200, "false"), None, AnswerReason.WRONG_PROTOCOL, "JSON object"),
    ("a web page", (200, "<p>hi</p>"), None, AnswerReason.WRONG_PROTOCOL, "JSON object"),
    ("a long text", (200, "yes " * 50), None, AnswerReason.WRONG_PROTOCOL, "JSON object"),
    ("a redirect", (302, ""), None, AnswerReason.WRONG_PROTOCOL, "redirects"),
    ("an error of the server", (500, "boom"), False, AnswerReason.NOT_READY, "HTTP 500"),
]


@pytest.mark.parametrize(
    ("reply", "verdict", "reason", "said"),
    [row[1:] for row in ANSWERS],
    ids=[row[0] for row in ANSWERS],
)
async def test_model_readiness_follows_status_and_body(
    reply: tuple[int, str], verdict: bool | None, reason: AnswerReason, said: str
) -> None:
    answer = await asked({**OIP, READY: reply}, lambda d, t: d.model_ready(t))

    assert (answer.verdict, answer.reason) == (verdict, reason)
    assert said in answer.message


async def test_what_a_server_says_about_a_load_is_one_short_printable_line() -> None:
    said = "\x1b[2J\u202einstalling\n" + "x" * 60_000
    document = json.dumps({"ready": False, "state": "LOADING", "error": said})

    answer = await asked({**OIP, READY: (503, document)}, lambda d, t: d.model_ready(t))

    assert answer.reason is AnswerReason.LOADING
    assert answer.message.startswith("[2J installing x")
    assert answer.message.isprintable()
    assert len(answer.message) == MESSAGE_LIMIT


async def test_a_404_of_an_oip_server_is_a_missing_model() -> None:
    routes = {**OIP, READY: (404, '{"error":"unknown model; it has: wine"}')}

    answer = await asked(routes, lambda d, t: d.model_ready(t))

    assert answer == Answer(
        verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message="unknown model; it has: wine"
    )


async def test_a_404_of_a_missing_version_lists_the_versions() -> None:
    path = "/v2/models/iris/versions/3"
    routes = {
        **OIP,
        "/v2/models/iris": (200, '{"name":"iris","versions":["1","2"]}'),
    }

    answer = await asked(
        routes,
        lambda d, t: d.model_ready(t),
        model_version="3",
        metadata_path=path,
        model_ready_path=f"{path}/ready",
    )

    assert answer.reason is AnswerReason.VERSION_NOT_FOUND
    assert "1, 2" in answer.message


async def test_a_404_of_a_server_without_oip_is_the_wrong_protocol() -> None:
    answer = await asked({}, lambda d, t: d.model_ready(t))

    assert (answer.verdict, answer.reason) == (None, AnswerReason.WRONG_PROTOCOL)


TRITONS_NO = (400, '{"error":"Model version not ready"}')
INDEX = "/v2/repository/index"


async def test_a_negative_answer_without_a_reason_is_looked_up_in_the_index() -> None:
    entries = [{"name": "iris", "version": "1", "state": "UNAVAILABLE", "reason": "no weights"}]
    routes = {**OIP, READY: TRITONS_NO, INDEX: (200, json.dumps(entries))}

    answer = await asked(routes, lambda d, t: d.model_ready(t))

    assert (answer.reason, answer.message) == (AnswerReason.LOAD_FAILED, "no weights")


@pytest.mark.parametrize("no", [TRITONS_NO, (404, '{"error":"Model iris not found"}')])
async def test_a_model_missing_from_the_index_is_not_found_and_the_others_are_listed(
    no: tuple[int, str],
) -> None:
    routes = {**OIP, READY: no, INDEX: (200, '[{"name":"wine"}]')}

    answer = await asked(routes, lambda d, t: d.model_ready(t))

    assert (answer.reason, answer.message) == (AnswerReason.MODEL_NOT_FOUND, "it has wine")


async def test_a_server_that_reports_the_state_is_not_queried_for_its_index() -> None:
    loading = (503, '{"ready":false,"state":"LOADING","error":"30 %"}')
    routes = {**OIP, READY: loading, INDEX: (200, "[]")}

    answer = await asked(routes, lambda d, t: d.model_ready(t))

    assert answer.reason is AnswerReason.LOADING


async def test_live_and_ready_use_their_own_paths() -> None:
    routes = {LIVE: (200, ""), "/v2/health/ready": (503, "")}

    assert (await asked(routes, lambda d, t: d.live(t))).verdict is True
    assert (await asked(routes, lambda d, t: d.ready(t))).verdict is False


async def test_metadata_is_read_and_missing_parts_are_unknown() -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [-1, "4"], "parameters": {}}
    model = {"name": "iris", "versions": ["1"], "platform": "", "inputs": [tensor], "more": 1}
    routes = {**OIP, "/v2/models/iris": (200, json.dumps(model))}

    described = await asked(routes, lambda d, t: d.describe(t))

    assert described.server == ServerInfo("s", "1", ())
    info = TensorInfo("x", "FP32", (-1, 4))
    assert described.model == ModelInfo("iris", ("1",), "", (info,), ())
    assert described.evidence == (await asked(routes, lambda d, t: d.speaks(t))).message
    none = await asked({}, lambda d, t: d.describe(t))
    assert (none.server, none.model, none.evidence) == (None, None, "")


async def test_nobody_listening_is_refused() -> None:
    http = HttpClient()
    driver = OipRest(http)
    answer = await driver.model_ready(target("http://127.0.0.1:1"))
    await http.close()

    assert (answer.verdict, answer.reason) == (None, AnswerReason.REFUSED)
    assert "127.0.0.1:1" in answer.message


async def raw(reply: bytes, *, hold: bool = False, **fields: Any) -> Answer:
    """The driver's answer for a server that always sends these bytes."""
    async with byte_server(reply, hold=hold) as server:
        http = HttpClient()
        driver = OipRest(http)
        try:
            return await driver.model_ready(target(server, **fields))
        finally:
            await http.close()


@pytest.mark.parametrize(
    ("reply", "hold", "reason"),
    [
        (b"", True, AnswerReason.TIMED_OUT),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", True, AnswerReason.TIMED_OUT),
        (b"", False, AnswerReason.REFUSED),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\r\n\r\n", False, AnswerReason.WRONG_PROTOCOL),
        (b"220 mail ready\r\n\r\n", False, AnswerReason.WRONG_PROTOCOL),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n" + b"x" * 2_000_000,
            True,
            AnswerReason.MALFORMED,
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx",
            False,
            AnswerReason.MALFORMED,
        ),
    ],
    ids=["silent", "half a body", "closed", "HTTP/2", "SMTP", "too large", "compressed"],
)
async def test_a_hostile_server_yields_no_verdict(
    reply: bytes, hold: bool, reason: AnswerReason
) -> None:
    answer = await raw(reply, hold=hold, timeout_seconds=0.3)

    assert (answer.verdict, answer.reason) == (None, reason)


async def test_an_error_that_is_not_utf_8_is_ignored() -> None:
    reply = b'HTTP/1.1 503 Unavailable\r\ncontent-length: 13\r\n\r\n{"error":"\x80"}'

    answer = await raw(reply)

    assert (answer.verdict, answer.reason) == (False, AnswerReason.NOT_READY)
    assert "HTTP 503" in answer.message


async def test_an_error_message_is_shortened_and_made_printable() -> None:
    body = json.dumps({"error": "a\x1b[31m\nb " + "x" * 5000})

    answer = await asked({**OIP, READY: (503, body)}, lambda d, t: d.model_ready(t))

    assert answer.message.startswith("a [31m b x")
    assert len(answer.message) == MESSAGE_LIMIT
