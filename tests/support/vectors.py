"""Wire vectors: one request and what its answer must look like, as JSON files in tests/vectors.

`check` sends a vector to any server, ours or a peer's, and raises AssertionError that names the
first difference. How answers are compared is the vector's `match`:

    exact, exact-numeric   the same JSON
    subset                 what is listed is there; lists of strings may have more
    error                  the status, and a text under "error"
    binary                 the JSON part as subset, the binary part byte for byte, the lengths true
    json-nan-subset        as subset, with NaN
    json-sequence          several JSON values one after the other
    stream                 the messages of a stream
    yaml-subset            a message whose text is YAML
"""

import functools
import http.client
import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "vectors"
PROTO = ROOT / "runtime" / "proto"
TIMEOUT = 30
# Vectors whose model is not in the main repository of fixtures.
SETS = {"loading": "loading", "mymodel_raw": "raw"}
# The server sets these by the bytes that it sends, which may be spaced differently.
BYTE_COUNTS = {"content-length", "inference-header-content-length"}
TRANSPORT = {"transfer-encoding", "date", "server"}


@dataclass(frozen=True)
class Vector:
    """One vector: its name, and the file's contents."""

    name: str
    content: dict[str, Any]

    @property
    def set(self) -> str:
        return SETS.get(self.content.get("fixture", ""), "main")

    @property
    def is_grpc(self) -> bool:
        return self.content["request"]["method"] == "grpc"

    @property
    def needs_offline(self) -> bool:
        return "ffline" in (self.content.get("precondition") or "")


def load() -> list[Vector]:
    """Every vector, by name."""
    return [Vector(path.stem, json.loads(path.read_text())) for path in sorted(FOLDER.glob("*"))]


def check(vector: Vector, http_address: str, grpc_address: str) -> None:
    """Send the vector and compare the answer."""
    if vector.is_grpc:
        _check_grpc(vector.content, grpc_address)
    else:
        _check_http(vector.content, http_address)


def get(address: str, path: str) -> int:
    """The status of a GET."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def request_body(request: dict[str, Any]) -> bytes:
    if "body_hex" in request:
        return bytes.fromhex(request["body_hex"])
    return json.dumps(request["body"]).encode() if "body" in request else b""


def _check_http(vector: dict[str, Any], address: str) -> None:
    request, wanted = vector["request"], vector["response"]
    body = request_body(request)
    headers = {
        name: value
        for name, value in request["headers"].items()
        if name.lower() not in {"host", "content-length"}
    }
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT)
    try:
        sends_body = body or request["method"] == "POST"
        connection.request(
            request["method"], request["path"], body if sends_body else None, headers
        )
        answer = connection.getresponse()
        got = answer.read()
    finally:
        connection.close()
    assert answer.status == wanted["status"], f"status {answer.status}: {got[:300]!r}"
    seen = {name.lower(): value for name, value in answer.getheaders()}
    _compare_headers(wanted, seen)
    _compare_body(wanted, seen, got)


def _compare_headers(wanted: dict[str, Any], seen: dict[str, str]) -> None:
    for name, value in wanted["headers"].items():
        if name.lower() not in BYTE_COUNTS | TRANSPORT:
            media_type = seen.get(name.lower(), "").split(";")[0].strip().lower()
            assert media_type == value.split(";")[0].strip().lower(), f"{name}: {media_type}"
    for name in wanted.get("absent_headers", []):
        assert name.lower() not in seen, f"{name} must be absent"


def _compare_body(wanted: dict[str, Any], seen: dict[str, str], got: bytes) -> None:
    match wanted["match"]:
        case "error":
            text = json.loads(got)["error"]
            assert isinstance(text, str)
            assert text
        case "binary":
            split = int(seen["inference-header-content-length"])
            assert int(seen["content-length"]) == len(got)
            _compare(wanted["json"], json.loads(got[:split]), subset=True)
            assert got[split:] == bytes.fromhex("".join(wanted["binary_hex"]))
        case "json-sequence":
            values = [json.loads(line) for line in got.splitlines()]
            _compare(wanted["chunks"], values, subset=True)
        case match:
            if "body" in wanted:
                expected = wanted["body"]
            elif match == "exact":
                assert got == bytes.fromhex(wanted["body_hex"])
                return
            else:
                expected = json.loads(bytes.fromhex(wanted["body_hex"]))
            _compare(
                expected,
                json.loads(got),
                subset="subset" in match,
                tolerance=wanted.get("float_tolerance", 0.0),
            )


@functools.cache
def _messages() -> descriptor_pool.DescriptorPool:
    """The proto files in a separate pool, independent of generated modules."""
    files = [str(path) for path in sorted(PROTO.glob("*.proto"))]
    with tempfile.NamedTemporaryFile() as out:
        assert protoc.main(["", f"-I{PROTO}", f"--descriptor_set_out={out.name}", *files]) == 0
        compiled = descriptor_pb2.FileDescriptorSet.FromString(Path(out.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in compiled.file:
        pool.Add(file)
    return pool


def _check_grpc(vector: dict[str, Any], address: str) -> None:
    request, wanted = vector["request"], vector["response"]
    service, name = request["path"].strip("/").split("/")
    method = _messages().FindServiceByName(service).FindMethodByName(name)
    status, details, answers = "OK", "", []
    with grpc.insecure_channel(address) as channel:
        try:
            if method.server_streaming and wanted["match"] == "stream":
                answers = list(
                    channel.unary_stream(request["path"])(request_body(request), timeout=TIMEOUT)
                )
            else:
                call = channel.unary_unary(request["path"])
                answers = [call(request_body(request), timeout=TIMEOUT)]
        except grpc.RpcError as error:
            status, details = error.code().name, error.details()
    assert status == wanted["status"]
    assert status == "OK" or details, f"{status} without a text"
    if status != "OK":
        return
    kind = message_factory.GetMessageClass(method.output_type)
    decoded = [
        json_format.MessageToDict(kind.FromString(answer), preserving_proto_field_name=True)
        for answer in answers
    ]
    match wanted["match"]:
        case "stream":
            _compare(wanted["messages"], decoded, subset=True, proto=True)
        case "yaml-subset":
            expected = dict(wanted["message"])
            text = yaml.safe_load(expected.pop("str_data"))
            _compare(text, yaml.safe_load(decoded[0]["str_data"]), subset=True)
            _compare(expected, decoded[0], subset=True)
        case match:
            _compare(wanted.get("message", {}), decoded[0], subset=match == "subset", proto=True)


def _compare(
    wanted: Any,
    got: Any,
    *,
    subset: bool,
    proto: bool = False,
    tolerance: float = 0.0,
    at: str = "$",
) -> None:
    """Compare JSON values; with `proto` an absent member is the default value."""
    rest = {"subset": subset, "proto": proto, "tolerance": tolerance}
    if wanted == "$ANY_NONEMPTY_STRING":
        assert isinstance(got, str), at
        assert got, at
    elif wanted == "$YAML_MAPPING":
        assert isinstance(yaml.safe_load(got), dict), at
    elif isinstance(wanted, dict):
        assert isinstance(got, dict), f"{at}: {got!r:.80}"
        for key, value in wanted.items():
            if key in got or not proto or value:
                assert key in got, f"{at}.{key} is missing"
                _compare(value, got[key], at=f"{at}.{key}", **rest)
        assert subset or not set(got) - set(wanted), f"{at}: more than {sorted(wanted)}: {got}"
    elif isinstance(wanted, list):
        assert isinstance(got, list), f"{at}: {got!r:.80}"
        if subset and wanted and all(isinstance(item, str) for item in wanted):
            assert set(wanted) <= set(got), f"{at}: {got}"
            return
        assert len(wanted) == len(got), f"{at}: {len(got)} items, wanted {len(wanted)}"
        for index, pair in enumerate(zip(wanted, got, strict=True)):
            _compare(*pair, at=f"{at}[{index}]", **rest)
    elif isinstance(wanted, bool | str) or wanted is None:
        assert type(got) is type(wanted), f"{at}: {got!r:.80}, wanted {wanted!r:.80}"
        assert got == wanted, f"{at}: {got!r:.80}, wanted {wanted!r:.80}"
    else:
        assert isinstance(got, int | float), f"{at}: {got!r:.80}"
        assert not isinstance(got, bool), f"{at}: {got!r:.80}"
        both_nan = math.isnan(wanted) and math.isnan(got)
        assert both_nan or wanted == got or abs(wanted - got) <= tolerance, (
            f"{at}: {got}, {wanted}"
        )
