"""The same question in every protocol: which digit is this picture? Prepared bytes, so that the
client does nothing but send them.

The headers of HTTP requests differ by a trace id, because those of real clients do.

    samples/digit-3.json -> Workload -> http_load, grpc_load

The messages are written from the protocols' field numbers (OIP "gRPC", GRPS "gtensors").
"""

import json
import math
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from moorage_benchmarks.wire import block, integer, varint

EXPECTED = 3
# Unless a load says otherwise.
UNDER_WAY = 8
SAMPLE = Path("samples") / f"digit-{EXPECTED}.json"
FEATURES = (5.1, 3.5, 1.4, 0.2)
TRACES = 4096
"""Requests with different headers; fewer of large ones, which would fill the memory."""
TRACED_BYTES = 32 * 2**20
OIP_INFER = "/inference.GRPCInferenceService/ModelInfer"
_DT_FLOAT32 = 7
# The shape 1x3x14x14 in an output tensor.
_MEANS_SHAPE = block(3, b"".join(varint(size) for size in (1, 3, 14, 14)))


@dataclass(frozen=True)
class Workload:
    """One prepared request.

    Attributes:
        name: Protocol and transport.
        target: HTTP path, or full gRPC method.
        body: HTTP body, or gRPC message.
        answer_holds: Bytes of the right answer, so that no error is mistaken for one.
        headers: Further HTTP headers, each with its line end.
        is_grpc: Which transport.
        under_way: Requests at a time.
        is_traced: Whether each HTTP request has a new trace id, as most clients send; else all
            requests are equal.
    """

    name: str
    target: str
    body: bytes
    answer_holds: bytes
    headers: bytes = b""
    is_grpc: bool = False
    under_way: int = UNDER_WAY
    is_traced: bool = True

    def http_requests(self, port: int) -> Sequence[bytes]:
        """Whole HTTP/1.1 requests, to be sent in turn."""
        head = (
            f"POST {self.target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\n"
        )
        start = head.encode() + self.headers
        if not self.is_traced:
            return (start + b"\r\n" + self.body,)
        count = min(TRACES, TRACED_BYTES // len(self.body))
        return [start + trace + b"\r\n" + self.body for trace in _traces(count)]


def _traces(count: int) -> Sequence[bytes]:
    """Headers with different trace ids.

    Source: W3C Trace Context, "Traceparent Header".
    """
    draw = random.Random(count)
    return [
        b"traceparent: 00-%032x-%016x-01\r\n" % (draw.getrandbits(128), draw.getrandbits(64))
        for _ in range(count)
    ]


def digits(example: Path) -> Sequence[Workload]:
    """The sample picture in each protocol; `example` is the folder of the digits example."""
    text = (example / SAMPLE).read_bytes()
    tensor: dict[str, Any] = json.loads(text)["inputs"][0]
    values: list[float] = tensor["data"]
    shape: list[int] = tensor["shape"]
    raw = struct.pack(f"<{len(values)}f", *values)
    return (
        _oip_json(text),
        _oip_binary(shape, raw),
        _tensorflow_serving(shape, values),
        _grps_json(shape, values),
        _oip_grpc(shape, raw),
        _grps_grpc(shape, raw),
    )


def small() -> Sequence[Workload]:
    """Four features in each protocol over HTTP, for the model ``small``."""
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": FEATURES}
    grps = {"name": "x", "dtype": "DT_FLOAT32", "shape": [1, 4], "flat_float32": FEATURES}
    named = {"model": "small", "gtensors": {"tensors": [grps]}}
    oip = json.dumps({"inputs": [tensor]}).encode()
    rows = json.dumps({"instances": [FEATURES]}).encode()
    message = json.dumps(named).encode()
    infer = "/v2/models/small/infer"
    return (
        Workload("small: OIP JSON", infer, oip, b'"data":[2]'),
        Workload("small: OIP JSON, equal headers", infer, oip, b'"data":[2]', is_traced=False),
        Workload("small: OIP JSON, 32 concurrent", infer, oip, b'"data":[2]', under_way=32),
        Workload("small: TensorFlow Serving REST", "/v1/models/small:predict", rows, b'"label":2'),
        Workload("small: GRPS JSON", "/grps/v1/infer/predict", message, b'"flat_int64":["2"]'),
    )


def small_grpc() -> Workload:
    """The first of ``small`` over gRPC."""
    tensor = block(1, "x") + block(2, "FP32") + integer(3, 1) + integer(3, 4)
    return Workload(
        "small: OIP gRPC",
        OIP_INFER,
        block(1, "small") + block(5, tensor) + block(7, struct.pack("<4f", *FEATURES)),
        struct.pack("<q", 2),
        is_grpc=True,
    )


def image() -> Sequence[Workload]:
    """A picture of 600 KB as binary data, over gRPC and as JSON, for the model ``image``."""
    shape = [1, 3, 224, 224]
    # no two alike, and as many digits as measured pixels have after scaling
    values = [round(index * 0.6180339887 % 1, 7) for index in range(math.prod(shape))]
    tensor: dict[str, Any] = {"name": "image", "shape": shape, "datatype": "FP32"}
    raw = struct.pack(f"<{len(values)}f", *values)
    sizes = {"binary_data_size": len(raw)}
    asked = {
        "inputs": [{**tensor, "parameters": sizes}],
        "parameters": {"binary_data_output": True},
    }
    head = json.dumps(asked).encode()
    flat = json.dumps({"inputs": [{**tensor, "data": values}]}).encode()
    rows = json.dumps({"instances": _nested(shape, values)}).encode()
    infer, answered = "/v2/models/image/infer", b'"shape":[1,3,14,14]'
    dims = b"".join(integer(3, size) for size in shape)
    message = block(1, "image") + block(5, block(1, "image") + block(2, "FP32") + dims)
    return (
        Workload(
            "image: OIP binary over HTTP",
            infer,
            head + raw,
            answered,
            headers=b"Inference-Header-Content-Length: %d\r\n" % len(head),
        ),
        Workload(
            "image: OIP gRPC", OIP_INFER, message + block(7, raw), _MEANS_SHAPE, is_grpc=True
        ),
        Workload("image: OIP JSON", infer, flat, answered, under_way=1),
        Workload(
            "image: TensorFlow Serving REST",
            "/v1/models/image:predict",
            rows,
            b'{"predictions":[[[[',
            under_way=1,
        ),
    )


def _oip_json(text: bytes) -> Workload:
    return Workload("OIP JSON", "/v2/models/digits/infer", text, b'"data":[3]')


def _oip_binary(shape: Sequence[int], raw: bytes) -> Workload:
    tensor = {
        "name": "image",
        "shape": shape,
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(raw)},
    }
    asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    head = json.dumps(asked).encode()
    return Workload(
        "OIP binary over HTTP",
        "/v2/models/digits/infer",
        head + raw,
        struct.pack("<q", EXPECTED),
        headers=b"Inference-Header-Content-Length: %d\r\n" % len(head),
    )


def _tensorflow_serving(shape: Sequence[int], values: Sequence[float]) -> Workload:
    body = json.dumps({"instances": _nested(shape, values)}).encode()
    return Workload("TensorFlow Serving REST", "/v1/models/digits:predict", body, b'"label":3')


def _grps_json(shape: Sequence[int], values: Sequence[float]) -> Workload:
    tensor = {"name": "image", "dtype": "DT_FLOAT32", "shape": shape, "flat_float32": values}
    body = json.dumps({"model": "digits", "gtensors": {"tensors": [tensor]}}).encode()
    return Workload("GRPS JSON", "/grps/v1/infer/predict", body, b'"flat_int64":["3"]')


def _oip_grpc(shape: Sequence[int], raw: bytes) -> Workload:
    dims = b"".join(integer(3, size) for size in shape)
    tensor = block(1, "image") + block(2, "FP32") + dims
    return Workload(
        "OIP gRPC",
        OIP_INFER,
        block(1, "digits") + block(5, tensor) + block(7, raw),
        struct.pack("<q", EXPECTED),
        is_grpc=True,
    )


def _grps_grpc(shape: Sequence[int], raw: bytes) -> Workload:
    dims = b"".join(integer(3, size) for size in shape)
    tensor = block(1, "image") + integer(2, _DT_FLOAT32) + dims + block(10, raw)
    return Workload(
        "GRPS gRPC",
        "/grps.protos.v1.GrpsService/Predict",
        block(2, "digits") + block(5, block(1, tensor)),
        block(8, bytes([EXPECTED])),
        is_grpc=True,
    )


def _nested(shape: Sequence[int], values: Sequence[float]) -> list[Any]:
    """The values as nested lists in row-major order."""
    if len(shape) == 1:
        return list(values)
    step = len(values) // shape[0]
    inner = partial(_nested, shape[1:])
    return [inner(values[at : at + step]) for at in range(0, len(values), step)]
