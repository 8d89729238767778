"""Requests that take a server long to read: bodies as large as it accepts, of many small parts.

Every body is made when it is asked for, since all of them together would fill the memory. Pure.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from moorage_benchmarks import wire

BODY_BYTES = 60 * 2**20
# Name of a model, and of its input.
SINK, COLUMN, ECHO, NUMBERS, ROWS = "sink", "column", "echo", "numbers", "rows"
X = "x"
INFER = "/inference.GRPCInferenceService/ModelInfer"
# Field numbers of OIP's protobuf messages.
_MODEL_NAME, _INPUTS = 1, 5
_NAME, _DATATYPE, _SHAPE, _CONTENTS = 1, 2, 3, 5
_FP32_CONTENTS, _BYTES_CONTENTS = 6, 8
_JSON = MappingProxyType({"Content-Type": "application/json"})


@dataclass(frozen=True)
class Heavy:
    """A request.

    Attributes:
        name: For the table.
        path: Of the URL, or the gRPC method.
        make: Makes the body or the message.
        headers: Of an HTTP request; None of a gRPC call.
    """

    name: str
    path: str
    make: Callable[[], bytes]
    headers: Mapping[str, str] | None = field(default_factory=lambda: _JSON)


def all_of_them(size: int = BODY_BYTES) -> Sequence[Heavy]:
    """The requests, each with a body of at most so many bytes."""
    oip = "/v2/models/{}/infer"
    tensorflow = "/v1/models/{}:predict"
    grps = "/grps/v1/infer/predict?model={}"
    floats = size // 4 - 64
    head = b'{"inputs":[{"name":"x","shape":[%d],"datatype":"FP32","parameters":' % floats
    head += b'{"binary_data_size":%d}}]}' % (floats * 4)
    binary = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }

    def oip_json(item: bytes, datatype: str, row: int | None = None) -> Callable[[], bytes]:
        return lambda: _oip_json(item, datatype, size, row)

    def tfs_json(item: bytes) -> Callable[[], bytes]:
        return lambda: b'{"instances":%b}' % _list(item, size)

    def grps_json(item: bytes, field: str, dtype: str) -> Callable[[], bytes]:
        return lambda: _grps_json(item, field, dtype, size)

    return (
        Heavy("binary: numbers", oip.format(NUMBERS), lambda: head + bytes(floats * 4), binary),
        Heavy("JSON: numbers", oip.format(NUMBERS), oip_json(b"0.123", "FP32")),
        Heavy("JSON: NaN", oip.format(NUMBERS), oip_json(b"NaN", "FP32")),
        Heavy("JSON: strings", oip.format(SINK), oip_json(b'"ab"', "BYTES")),
        Heavy("JSON: strings with escapes", oip.format(SINK), oip_json(b'"\\"\\n,"', "BYTES")),
        Heavy("JSON: strings in rows of 1", oip.format(COLUMN), oip_json(b'["ab"]', "BYTES", 1)),
        Heavy("JSON: strings there and back", oip.format(ECHO), oip_json(b'"ab"', "BYTES")),
        Heavy("JSON: strings, then an error", oip.format(SINK), lambda: _broken(size)),
        Heavy("JSON: strings for numbers", oip.format(NUMBERS), oip_json(b'"ab"', "FP32")),
        Heavy("JSON: inputs", oip.format(SINK), lambda: _inputs(size)),
        Heavy("JSON: nested 100 deep", oip.format(SINK), lambda: _deep(size)),
        Heavy("binary: strings", oip.format(SINK), *_binary_strings(size)),
        Heavy("TensorFlow: strings", tensorflow.format(SINK), tfs_json(b'"ab"')),
        Heavy("TensorFlow: base64", tensorflow.format(SINK), tfs_json(b'{"b64":"YWI="}')),
        Heavy("TensorFlow: named rows", tensorflow.format(ROWS), tfs_json(b'{"x":1,"s":"ab"}')),
        Heavy("TensorFlow: there and back", tensorflow.format(ECHO), tfs_json(b'"ab"')),
        Heavy("GRPS: strings", grps.format(SINK), grps_json(b'"ab"', "flat_string", "STRING")),
        Heavy(
            "GRPS: quoted numbers", grps.format(SINK), grps_json(b'"12"', "flat_int64", "INT64")
        ),
        Heavy("gRPC: strings", INFER, lambda: _grpc_strings(size), None),
        Heavy("gRPC: numbers", INFER, lambda: _grpc_numbers(size), None),
    )


def models() -> Mapping[str, str]:
    """The source of a Python model by its name, which does nothing with what it gets."""
    strings, count = '[("x", "BYTES", [-1])]', '[("n", "INT64", [1])]'
    counted = '{"n": np.array([inputs["x"].size])}'
    return {
        SINK: _model(strings, count, counted),
        COLUMN: _model('[("x", "BYTES", [-1, 1])]', count, counted),
        ECHO: _model(strings, '[("y", "BYTES", [-1])]', '{"y": inputs["x"]}'),
        NUMBERS: _model('[("x", "FP32", [-1])]', count, counted),
        ROWS: _model('[("x", "FP32", [-1]), ("s", "BYTES", [-1])]', count, counted),
    }


def _model(inputs: str, outputs: str, answer: str) -> str:
    return (
        "import numpy as np\n"
        "from moorage_runtime.backends.python import PythonModel\n\n\n"
        "class Model(PythonModel):\n"
        f"    inputs = {inputs}\n"
        f"    outputs = {outputs}\n\n"
        "    def predict(self, inputs, request):\n"
        f"        return {answer}\n"
    )


def _count(item: bytes, size: int) -> int:
    return (size - 1024) // (len(item) + 1)


def _list(item: bytes, size: int) -> bytes:
    return b"[" + (item + b",") * (_count(item, size) - 1) + item + b"]"


def _oip_json(item: bytes, datatype: str, size: int, row: int | None) -> bytes:
    shape = str(_count(item, size)) if row is None else f"{_count(item, size)},{row}"
    head = f'{{"inputs":[{{"name":"{X}","datatype":"{datatype}","shape":[{shape}],"data":'
    return head.encode() + _list(item, size) + b"}]}"


def _broken(size: int) -> bytes:
    return _oip_json(b'"ab"', "BYTES", size, None)[:-4] + b",]}]}"


def _inputs(size: int) -> bytes:
    return b'{"inputs":%b}' % _list(b'{"name":"x","datatype":"INT8","shape":[1],"data":[1]}', size)


def _deep(size: int) -> bytes:
    return b'{"inputs":%b}' % _list(b"[" * 90 + b"1" + b"]" * 90, size)


def _grps_json(item: bytes, field: str, dtype: str, size: int) -> bytes:
    head = f'{{"gtensors":{{"tensors":[{{"name":"{X}","dtype":"DT_{dtype}","shape":'
    count = _count(item, size)
    return f'{head}[{count}],"{field}":'.encode() + _list(item, size) + b"}]}}"


def _binary_strings(size: int) -> tuple[Callable[[], bytes], Mapping[str, str]]:
    element = struct.pack("<I", 2) + b"ab"
    count = (size - 1024) // len(element)
    head = f'{{"inputs":[{{"name":"{X}","datatype":"BYTES","shape":[{count}],"parameters":'
    head += f'{{"binary_data_size":{count * len(element)}}}}}]}}'
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }
    return lambda: head.encode() + element * count, headers


def _grpc_strings(size: int) -> bytes:
    element = wire.block(_BYTES_CONTENTS, b"ab")
    count = (size - 1024) // len(element)
    return _grpc(SINK, "BYTES", count, element * count)


def _grpc_numbers(size: int) -> bytes:
    count = size // 4 - 256
    return _grpc(NUMBERS, "FP32", count, wire.block(_FP32_CONTENTS, bytes(count * 4)))


def _grpc(model: str, datatype: str, count: int, contents: bytes) -> bytes:
    item = wire.block(_NAME, X) + wire.block(_DATATYPE, datatype)
    item += wire.block(_SHAPE, wire.varint(count)) + wire.block(_CONTENTS, contents)
    return wire.block(_MODEL_NAME, model) + wire.block(_INPUTS, item)
