"""Requirements of all protocols: ports, paths, bodies, errors, health."""

import concurrent.futures
import json
import math
import socket
import uuid
from pathlib import Path

import grpc
import httpx
import pytest

from support.odd_models import request, tensor
from support.runtime import running, serving

pytestmark = pytest.mark.conformance

OIP = "/v2/models/identity_fp32/infer"
TFS = "/v1/models/strs:predict"
GRPS = "/grps/v1/infer/predict"
ENDPOINTS = (OIP, TFS, GRPS)
JSON = {"Content-Type": "application/json"}
FLOATS = request(tensor("x", "FP32", [2], [1.0, 2.0]))
SERVER_LIVE = "/inference.GRPCInferenceService/ServerLive"
CHECK_LIVENESS = "/grps.protos.v1.GrpsService/CheckLiveness"
HEALTH = "/grpc.health.v1.Health/Check"


def post(server, path: str, body: bytes, **headers: str) -> httpx.Response:
    return httpx.post(
        f"http://{server.http}{path}", content=body, headers={**JSON, **headers}, timeout=30
    )


def error_text(answer: httpx.Response) -> str:
    """The text of a protocol's error, in any form."""
    body = answer.json()
    if "error" in body:
        assert set(body) == {"error"}
        return body["error"]
    assert body["status"]["code"] == answer.status_code
    assert body["status"]["status"] == "FAILURE"
    return body["status"]["msg"]


def call(address: str, path: str, message: bytes = b"") -> tuple[str, bytes]:
    """Status and response of one call."""
    with grpc.insecure_channel(address) as channel:
        try:
            return "OK", channel.unary_unary(path)(message, timeout=10)
        except grpc.RpcError as error:
            return error.code().name, error.details().encode()


def test_one_port_serves_a_model_over_every_http_protocol(server):
    url = f"http://{server.http}"
    text = {"str_data": "hello", "model": "strs"}

    oip = httpx.post(
        f"{url}/v2/models/strs/infer", content=request(tensor("s", "BYTES", [1], ["hello"]))
    )
    tfs = httpx.post(f"{url}{TFS}", json={"instances": ["hello"]})
    grps = httpx.post(f"{url}{GRPS}", json=text)

    assert oip.json()["outputs"][0]["data"] == ["hello"]
    assert tfs.json() == {"predictions": ["hello"]}
    assert grps.json()["str_data"] == "hello"
    assert httpx.get(f"{url}/").headers["content-type"].startswith("text/html")


def test_one_port_serves_every_grpc_service(server):
    for path in (SERVER_LIVE, CHECK_LIVENESS, HEALTH):
        assert call(server.grpc, path)[0] == "OK", path


@pytest.mark.parametrize(
    ("left", "alive", "gone", "calls"),
    [
        (
            "oip",
            ["/v2/health/live"],
            ["/v1/models/x", "/grps/v1/health/live", "/"],
            {SERVER_LIVE: "OK", CHECK_LIVENESS: "UNIMPLEMENTED", HEALTH: "OK"},
        ),
        (
            "grps",
            ["/grps/v1/health/live", "/"],
            ["/v2", "/v2/health/live", "/v1/models/x"],
            {SERVER_LIVE: "UNIMPLEMENTED", CHECK_LIVENESS: "OK", HEALTH: "OK"},
        ),
        (
            "tensorflow-serving",
            [],
            ["/v2/health/live", "/grps/v1/health/live", "/"],
            {SERVER_LIVE: "UNIMPLEMENTED", CHECK_LIVENESS: "UNIMPLEMENTED", HEALTH: "OK"},
        ),
    ],
)
def test_a_disabled_protocol_is_not_served(left, alive, gone, calls):
    with running(f"--protocols={left}") as runtime:
        assert [runtime.get(path).status_code for path in alive] == [200] * len(alive)
        assert [runtime.get(path).status_code for path in gone] == [404] * len(gone)
        assert {path: call(runtime.grpc, path)[0] for path in calls} == calls


@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"]
)
def test_a_body_is_never_parsed_as_form_data(server, content_type):
    oip = post(server, OIP, FLOATS, **{"Content-Type": content_type})
    tfs = post(server, TFS, b'{"instances": ["a=b&c"]}', **{"Content-Type": content_type})

    assert oip.json()["outputs"][0]["data"] == [1.0, 2.0]
    assert tfs.json() == {"predictions": ["a=b&c"]}


@pytest.mark.parametrize("name", ["zwei%20teile%3A%C3%BC", "zwei%20teile%3a%c3%bc"])
def test_names_are_decoded_after_the_path_is_split(odd, name):
    texts = request(tensor("x", "BYTES", [1], ["hello"]))

    assert odd.get(f"/v2/models/{name}/versions/1/ready").json()["name"] == "zwei teile:ü"
    assert post(odd, f"/v2/models/{name}/infer", texts).status_code == 200
    assert odd.get(f"/v1/models/{name}").status_code == 200
    assert odd.get(f"/v1/models/{name}/versions/1/metadata").status_code == 200
    assert "zwei teile/ü" in odd.get("/v2/models/zwei%20teile%2F%C3%BC").json()["error"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v2?verbose=1", 200),
        ("/v2/health/live?x", 200),
        ("/v2/models/my_model/ready?a=b&c=d", 200),
        ("/v1/models/mnist?x=y", 200),
        ("/grps/v1/health/live?x=y", 200),
        ("/?x=y", 200),
    ],
)
def test_a_query_is_ignored(server, path, status):
    assert httpx.get(f"http://{server.http}{path}").status_code == status


@pytest.mark.parametrize(
    ("path", "body", "member"),
    [
        (OIP, FLOATS, "outputs"),
        (TFS, b'{"instances": ["a"]}', "predictions"),
        (GRPS, b'{"str_data": "a"}', "str_data"),
    ],
)
def test_a_chunked_body_is_read_by_every_protocol(server, path, body, member):
    halves = (part for part in (body[:5], body[5:]))

    answer = httpx.post(f"http://{server.http}{path}", content=halves, headers=JSON)

    assert answer.status_code == 200
    assert member in answer.json()


@pytest.mark.parametrize(
    "path",
    ["/v2", "/v2/health/ready", "/v2/models/my_model", "/v1/models/mnist", "/metrics", "/"],
)
def test_head_answers_like_get_without_a_body(server, path):
    url = f"http://{server.http}{path}"

    head, get = httpx.head(url), httpx.get(url)

    assert head.status_code == get.status_code == 200
    assert head.headers["content-type"] == get.headers["content-type"]
    assert head.content == b""
    assert int(get.headers["content-length"]) == len(get.content)


@pytest.mark.parametrize("path", ENDPOINTS)
def test_an_unknown_encoding_is_refused_with_the_supported_ones(server, path):
    answer = post(server, path, b"x", **{"Content-Encoding": "br"})

    assert answer.status_code == 415
    assert answer.headers["accept-encoding"] == "gzip, deflate"
    assert error_text(answer)


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    "body",
    [
        b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}",
        b'{"a": ' + b"[" * 100_000,
        b'{"a": ' * 200_000,
        b'{"instances": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"ndarray": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"inputs": [{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        b'{"id": 1' + b"0" * 100_000 + b"}",
    ],
    ids=["101", "open lists", "objects", "instances", "inputs", "ndarray", "data", "long number"],
)
def test_json_that_is_too_deep_or_incomplete_or_has_a_long_number_is_refused(server, path, body):
    answer = post(server, path, body)

    assert answer.status_code == 400
    assert error_text(answer)
    assert len(answer.content) < 1000


@pytest.mark.parametrize(
    ("path", "body"),
    [(OIP, FLOATS), (TFS, b'{"instances": ["a"]}'), (GRPS, b'{"str_data": "a"}')],
)
def test_json_may_be_100_levels_deep(server, path, body):
    def nested(levels: int) -> bytes:
        return body[:-1] + b', "extra": ' + b"[" * levels + b"]" * levels + b"}"

    assert post(server, path, nested(99)).status_code == 200
    assert "100" in error_text(post(server, path, nested(100)))


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"null",
        b"[]",
        b'"text"',
        b"1",
        b"{",
        b"{}x",
        b"{} {}",
        b'{"id": "\xff"}',
        b'{"id": "\xed\xa0\x80"}',
        b"{'id': 1}",
        b'{"id": NaM}',
        b'{"id": 1,}',
        b"\xff\xfe{\x00}\x00",
        b"\x00",
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(server, path, body):
    answer = post(server, path, body)

    assert answer.status_code == 400
    assert error_text(answer)


@pytest.mark.parametrize(
    ("path", "body"),
    [(OIP, FLOATS), (TFS, b'{"instances": ["a"]}'), (GRPS, b'{"str_data": "a"}')],
)
def test_a_byte_order_mark_and_surrounding_whitespace_are_ignored(server, path, body):
    assert post(server, path, b"\xef\xbb\xbf" + body).status_code == 200
    assert post(server, path, b"\r\n\t " + body + b" \n").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "read"),
    [
        (
            OIP,
            request(tensor("x", "FP32", [3], [math.nan, math.inf, -math.inf])),
            lambda answer: answer["outputs"][0]["data"],
        ),
        (
            "/v1/models/mnist:predict",
            b'{"instances": [NaN, Infinity, -Infinity]}',
            lambda answer: answer["predictions"],
        ),
        (
            GRPS,
            b'{"ndarray": [NaN, Infinity, -Infinity]}',
            lambda answer: [float(v) for v in answer["gtensors"]["tensors"][0]["flat_float32"]],
        ),
    ],
)
def test_nan_and_infinity_are_read_and_written(server, path, body, read):
    answer = post(server, path, body)

    assert answer.status_code == 200
    assert str(read(json.loads(answer.content))) == "[nan, inf, -inf]"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/models/fails/infer", request(tensor("x", "BYTES", [1], ["a"]))),
        ("/v1/models/fails:predict", b'{"instances": ["a"]}'),
        (GRPS + "?model=fails-1", b'{"str_data": "a"}'),
    ],
)
def test_a_failing_model_is_500_without_a_traceback(odd, path, body):
    answer = post(odd, path, body)

    assert answer.status_code == 500
    assert error_text(answer)
    assert answer.headers["content-type"].startswith("application/json")
    for leak in ("Traceback", "model.py", "File ", "site-packages"):
        assert leak not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/v2/nosuch", 404, None),
        ("GET", "/v3", 404, None),
        ("GET", "/nosuch", 404, None),
        ("GET", "/grps/v1/nosuch", 404, None),
        ("GET", "/v2/models/my_model/infer", 405, "POST"),
        ("DELETE", "/v2", 405, "GET, HEAD"),
        ("PUT", "/v2/health/live", 405, "GET, HEAD"),
        ("GET", "/grps/v1/infer/predict", 405, "POST"),
        ("POST", "/metrics", 405, "GET, HEAD"),
        ("DELETE", "/v1/models/mnist", 400, None),
        ("PATCH", "/v1/models/mnist:predict", 400, None),
    ],
)
def test_unknown_paths_and_wrong_methods_are_json_errors(server, method, path, status, allow):
    answer = httpx.request(method, f"http://{server.http}{path}")

    assert answer.status_code == status
    assert error_text(answer)
    if allow is not None:
        assert set(answer.headers["allow"].split(", ")) >= set(allow.split(", ")) - {"HEAD"}


def test_concurrent_requests_keep_their_tensors_and_ids(server):
    url = f"http://{server.http}{OIP}"

    def ask(number: int) -> bool:
        own = str(uuid.uuid4())
        body = request(tensor("x", "FP32", [2], [number, -number]), id=own)
        answer = client.post(url, content=body).json()
        return answer["id"] == own and answer["outputs"][0]["data"] == [number, -number]

    with httpx.Client() as client, concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(400)))


def test_a_disconnect_does_not_affect_other_clients(server):
    host, port = server.http.split(":")
    for cut in (20, 80, 120):
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST {OIP} HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n"
            connection.sendall((head.encode() + FLOATS)[:cut])

    assert post(server, OIP, FLOATS).status_code == 200


@pytest.mark.parametrize(
    ("name", "highest", "lower"), [("versions", "10", "9"), ("named", "v10", "v9")]
)
def test_the_highest_version_is_the_default(odd, name, highest, lower):
    floats = request(tensor("x", "FP32", [1], [1.0]))

    def version(path: str) -> list[str]:
        answer = post(odd, path, floats).json()
        return [answer["model_version"], *answer["outputs"][0]["data"]]

    assert version(f"/v2/models/{name}/infer") == [highest, highest]
    assert version(f"/v2/models/{name}/versions/{lower}/infer") == [lower, lower]
    predicted = post(odd, f"/v1/models/{name}:predict", b'{"instances": [1.0]}').json()
    assert predicted == {"predictions": [highest]}


@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_body_above_the_limit_gets_an_error_of_its_protocol(path):
    with running("--max-request-bytes=1000") as runtime:
        answer = post(runtime, path, b" " * 1001)

    assert answer.status_code == 413
    assert error_text(answer)


def test_an_empty_repository_is_ready(tmp_path: Path):
    with serving(tmp_path) as runtime:
        ready = runtime.get("/v2/health/ready").json()
        assert (ready["live"], ready["ready"]) == (True, True)
        assert "no files" in ready["message"]
        assert runtime.get("/grps/v1/health/ready").status_code == 200
