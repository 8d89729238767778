"""What hostile bytes are thrown at: each protocol's frontend over a small dataplane.

    bytes -> frontend -> an answer of the protocol, or AssertionError

A target takes any bytes. The first byte (or the first three) choose the path and the header; the
rest is the body. Only answers that the protocol knows pass: an answer, or its error for a bad
request. Anything else, also an exception, is a finding.
"""

import asyncio
import contextlib
import gzip
import inspect
import json
import zlib
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import ngh2
import numpy as np

from moorage_runtime.codec.unpack import inflate
from moorage_runtime.frontends.grpc.methods import GrpcFault
from moorage_runtime.frontends.grpc.nghttp2.connection import Connection
from moorage_runtime.frontends.grpc.nghttp2.limits import Limits
from moorage_runtime.frontends.grpc.nghttp2.server import Nghttp2Server
from moorage_runtime.frontends.grps import grpc as grps_grpc
from moorage_runtime.frontends.grps.rest import GrpsRestFrontend
from moorage_runtime.frontends.http.limits import Limits as HttpLimits
from moorage_runtime.frontends.http.message import HttpRequest, StreamingResponse
from moorage_runtime.frontends.http.reader import RequestReader
from moorage_runtime.frontends.http.received import Refusal
from moorage_runtime.frontends.oip import grpc as oip_grpc
from moorage_runtime.frontends.oip.rest import OipRestFrontend
from moorage_runtime.frontends.tfs.rest import TfsRestFrontend
from moorage_runtime.values.errors import RuntimeFault
from moorage_runtime.values.inference import ModelMetadata, Signature
from support import vectors
from unit.runtime.http2_client import PREFACE, message
from unit.runtime.oip_fixtures import FakeDataplane, FakeModel, seed_models, spec

Target = Callable[[bytes], None]
CODINGS = ("gzip", "deflate")
UNPACKED_BYTES = 100_000
MEMBERS = gzip.compress(b"") * 3

HEADER = "inference-header-content-length"
OIP_MODELS = ("mymodel", "identity_fp32", "identity_2d_int32", "identity_bytes", "two_out")
TFS_PATHS = (
    "identity_fp32:predict",
    "identity_bytes:predict",
    "identity_2d_int32:predict",
    "two_out:predict",
    "mymodel:predict",
    "labelled:classify",
    "labelled:regress",
)
GRPS_QUERIES = (
    "",
    "model=identity_bytes",
    "model=identity_2d_int32-1",
    "return-ndarray=true",
    "streaming=true",
    "model=two_out&streaming=true",
)


class Dataplane(FakeDataplane):
    """Streams what it infers, and lets GRPS switch its traffic."""

    async def online(self) -> None:
        self.is_online = True

    async def offline(self) -> None:
        self.is_online = False

    def default_model(self) -> str:
        return "identity_fp32"

    async def infer_stream(self, request):
        yield await self.infer(request)


def labelled() -> FakeModel:
    """Says the same of every example."""
    signatures = {
        "serving_default": Signature("regress", {"x": "x", "s": "s"}, {"outputs": "scores"}),
        "classes": Signature("classify", {"x": "x"}, {"classes": "labels", "scores": "scores"}),
    }
    metadata = ModelMetadata(
        "labelled",
        "1",
        ("1",),
        "python_callable",
        (spec("x", "FP32", -1), spec("s", "BYTES", -1)),
        (spec("labels", "BYTES", -1, 1), spec("scores", "FP32", -1, 1)),
        signatures=signatures,
    )

    def compute(arrays):
        count = max(len(array) for array in arrays.values())
        labels = np.full((count, 1), b"a", np.object_)
        return {"labels": labels, "scores": np.zeros((count, 1), np.float32)}

    return FakeModel(metadata, compute)


DATAPLANE = Dataplane(*seed_models(), labelled())
OIP_REST = OipRestFrontend(DATAPLANE)
TFS_REST = TfsRestFrontend(DATAPLANE)
GRPS_REST = GrpsRestFrontend(DATAPLANE)
OIP_GRPC = oip_grpc.service(DATAPLANE).unary
GRPS_GRPC = grps_grpc.service(DATAPLANE).unary


def finish(answer):
    """The answer, where nothing ever waits: the fakes do not, and small bodies are read inline."""
    if not inspect.isawaitable(answer):
        return answer
    try:
        answer.__await__().send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the frontend waited")


def drain(response: StreamingResponse) -> bytes:
    parts, stream = [], aiter(response.chunks)
    while True:
        try:
            parts.append(finish(anext(stream)))
        except StopAsyncIteration:
            return b"".join(parts)


def post(frontend, path: str, body: bytes, query: str = "", **headers: str):
    return finish(frontend.handle(HttpRequest("POST", path, query, headers, body)))


def check_json(response) -> None:
    """A success, or the error that OIP and TensorFlow Serving share."""
    if response.status == 200:
        return
    assert response.status in {400, 404, 501}, response
    document = json.loads(response.body)
    assert set(document) == {"error"}, document
    assert document["error"]


def oip_json(data: bytes) -> None:
    model = OIP_MODELS[data[0] % len(OIP_MODELS)] if data else OIP_MODELS[0]
    check_json(post(OIP_REST, f"/v2/models/{model}/infer", data[1:]))


def oip_binary(data: bytes) -> None:
    model = OIP_MODELS[data[0] % len(OIP_MODELS)] if data else OIP_MODELS[0]
    length = str(int.from_bytes(data[1:3], "little"))
    check_json(post(OIP_REST, f"/v2/models/{model}/infer", data[3:], **{HEADER: length}))


def tfs(data: bytes) -> None:
    path = TFS_PATHS[data[0] % len(TFS_PATHS)] if data else TFS_PATHS[0]
    check_json(post(TFS_REST, f"/v1/models/{path}", data[1:]))


def grps_http(data: bytes) -> None:
    choice = data[0] if data else 0
    kind = "application/octet-stream" if choice & 0x80 else "application/json"
    query = GRPS_QUERIES[choice % len(GRPS_QUERIES)]
    headers = {"content-type": kind}
    response = post(GRPS_REST, "/grps/v1/infer/predict", data[1:], query, **headers)
    if isinstance(response, StreamingResponse):
        drain(response)
    elif response.status != 200:
        assert response.status in {400, 404}, response
        status = json.loads(response.body)["status"]
        assert (status["code"], status["status"]) == (response.status, "FAILURE")
        assert status["msg"]


def grps_metadata(data: bytes) -> None:
    response = post(GRPS_REST, "/grps/v1/metadata/model", data)
    assert response.status in {200, 400, 404}, response
    assert json.loads(response.body)["status"]["code"] == response.status


def _grpc(method: Callable[[bytes], Awaitable[bytes]], data: bytes) -> None:
    try:
        answer = finish(method(data))
    except (RuntimeFault, GrpcFault) as fault:
        answer = str(fault).encode()
    assert isinstance(answer, bytes)


def oip_proto(data: bytes) -> None:
    for method in ("ModelInfer", "ModelReady", "ModelMetadata", "ServerLive"):
        _grpc(OIP_GRPC[method], data)


def grps_proto(data: bytes) -> None:
    for method in ("Predict", "ModelMetadata", "CheckReadiness"):
        _grpc(GRPS_GRPC[method], data)


FRAME_HEAD_BYTES = 9
# A task begins, ends, and what it sent is written.
LOOP_TURNS = 4


class Transport:
    """A socket that keeps what is written to it."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def get_extra_info(self, name: str) -> None:
        """Neither TLS nor a real socket."""

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """The connection sends no more."""

    close = abort = write_eof


GRPC_SERVER = Nghttp2Server(
    [oip_grpc.service(DATAPLANE), grps_grpc.service(DATAPLANE)], "", 0, limits=Limits()
)
GRPC_LOOP = asyncio.new_event_loop()


async def _connection(data: bytes) -> bytes:
    connection, transport = Connection(GRPC_SERVER), Transport()
    connection.connection_made(transport)
    # in two reads, so that frames are cut
    for part in (data[: len(data) // 2], data[len(data) // 2 :]):
        GRPC_SERVER.scratch[: len(part)] = part
        connection.buffer_updated(len(part))
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)
    return transport.written


def grpc_native(data: bytes) -> None:
    """A connection's bytes behind the preface: no exception, and whole frames in return."""
    written = GRPC_LOOP.run_until_complete(_connection(PREFACE + data))
    at = 0
    while at < len(written):
        at += FRAME_HEAD_BYTES + int.from_bytes(written[at : at + 3], "big")
    assert at == len(written), written


def http(data: bytes) -> None:
    """A connection's bytes in two reads: requests and at most one refusal, which is the last."""
    reader = RequestReader(HttpLimits())
    for part in (data[: len(data) // 2], data[len(data) // 2 :]):
        rest = memoryview(part)
        while rest and reader.direct is not None:
            count = min(len(rest), len(reader.direct))
            reader.direct[:count] = rest[:count]
            reader.filled(count)
            rest = rest[count:]
        reader.feed(rest)
    kinds = [isinstance(each, Refusal) for each in reader.received]
    assert kinds.count(True) <= 1, reader.received
    assert not any(kinds[:-1]), reader.received


def compressed(data: bytes) -> None:
    """The first byte chooses the coding; the result is within its limit."""
    with contextlib.suppress(RuntimeFault):
        found = inflate.inflate(data[1:], CODINGS[(data or b"\0")[0] % 2], UNPACKED_BYTES)
        assert len(found) <= UNPACKED_BYTES


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "oip_json": oip_json,
        "oip_binary": oip_binary,
        "oip_proto": oip_proto,
        "tfs": tfs,
        "grps_http": grps_http,
        "grps_metadata": grps_metadata,
        "grps_proto": grps_proto,
        "grpc_native": grpc_native,
        "http": http,
        "compressed": compressed,
    }
)


def seeds(name: str) -> list[bytes]:
    """Bodies of the wire vectors in the target's form, one for each path that it chooses from."""
    if name in OWN_SEEDS:
        return OWN_SEEDS[name]()
    found = []
    for vector in vectors.load():
        request = vector.content["request"]
        body = vectors.request_body(request)
        length = {key.lower(): value for key, value in request["headers"].items()}.get(HEADER)
        path = request["path"]
        if vector.is_grpc:
            wanted = {"oip_proto": "inference.", "grps_proto": "grps."}.get(name)
            if wanted and path.startswith(f"/{wanted}"):
                found.append(body)
        elif name == "oip_binary" and length is not None and length.isdecimal():
            size = min(int(length), 0xFFFF).to_bytes(2, "little")
            found += [bytes([choice]) + size + body for choice in range(len(OIP_MODELS))]
        elif name == "oip_json" and path.startswith("/v2/models") and length is None:
            found += [bytes([choice]) + body for choice in range(len(OIP_MODELS))]
        elif name == "tfs" and path.startswith("/v1/models"):
            found += [bytes([choice]) + body for choice in range(len(TFS_PATHS))]
        elif name == "grps_http" and "infer/predict" in path:
            found += [bytes([choice]) + body for choice in (*range(len(GRPS_QUERIES)), 0x80)]
        elif name == "grps_metadata" and "metadata/model" in path:
            found.append(body)
    return sorted(set(found))


def _http_bytes(request) -> bytes:
    """A request as a client sends it."""
    body = vectors.request_body(request)
    fields = {"Host": "h", "Content-Length": str(len(body)), **request["headers"]}
    lines = [f"{request.get('method', 'POST')} {request['path']} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _request_bytes(request) -> bytes:
    """A call as a client sends it, without the preface."""
    session = ngh2.Connection(ngh2.Role.CLIENT)
    session.initiate_connection()
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": request["path"],
        ":authority": "localhost",
        "content-type": "application/grpc",
        "grpc-timeout": "10S",
    }
    stream_id = session.send_request([(k.encode(), v.encode()) for k, v in fields.items()])
    session.send_data(stream_id, message(vectors.request_body(request)), end_stream=True)
    return session.data_to_send().removeprefix(PREFACE)


OWN_SEEDS: Mapping[str, Callable[[], list[bytes]]] = MappingProxyType(
    {
        "compressed": lambda: [
            b"\0" + gzip.compress(b"a" * 99),
            b"\1" + zlib.compress(b""),
            b"\0" + MEMBERS,
        ],
        "http": lambda: [
            _http_bytes(each.content["request"]) for each in vectors.load() if not each.is_grpc
        ],
        "grpc_native": lambda: [
            _request_bytes(each.content["request"]) for each in vectors.load() if each.is_grpc
        ],
    }
)
