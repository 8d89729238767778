"""The messages between a Python model's own process and the server, and their encoding.

server -> Load | Call, More, Stop -> model process -> Ready | Part, End, Fault -> server

Every message is MessagePack with a length prefix. The server decodes only plain values, so a
model's process cannot make it run code.
"""

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from moorage_runtime.values import errors
from moorage_runtime.values.errors import RuntimeFault
from moorage_runtime.values.inference import HttpCall, HttpReply, InferRequest, RequestedOutput
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

_LENGTH: Final = struct.Struct(">Q")
_CHUNK: Final = 1024 * 1024
# The server's byte on the control socket.
CHANNEL: Final = b"c"
CLOSE: Final = b"x"


class Ended(Exception):
    """The process at the other end has ended."""


class WireTensor(msgspec.Struct, frozen=True):
    """A tensor whose elements are one block of bytes, or one block each for BYTES."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: bytes | list[bytes]
    parameters: dict[str, bool | int | float | str] = {}


class Load(msgspec.Struct, frozen=True, tag=True):
    """Which model to load; the fields of a ModelSource."""

    name: str
    version: str
    path: str
    inputs: tuple[TensorSpec, ...] | None
    outputs: tuple[TensorSpec, ...] | None
    options: dict[str, Any]


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The model is loaded; contains its metadata."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    dynamic: bool
    streams: bool
    http_path: str
    http_predict: bool


class Infer(msgspec.Struct, frozen=True, tag=True):
    """Run once, or for all parts of a stream."""

    model_name: str
    model_version: str
    inputs: tuple[WireTensor, ...]
    outputs: tuple[tuple[str, dict[str, bool | int | float | str]], ...]
    id: str | None
    parameters: dict[str, bool | int | float | str]
    is_stream: bool


class Http(msgspec.Struct, frozen=True, tag=True):
    """Answer HTTP in the model's own format."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class More(msgspec.Struct, frozen=True, tag=True):
    """Requests the next part."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """No more parts."""


class Part(msgspec.Struct, frozen=True, tag=True):
    """Outputs, all of them or one part of a stream."""

    outputs: tuple[WireTensor, ...]


class HttpPart(msgspec.Struct, frozen=True, tag=True):
    """Head and part of the body; ``is_whole`` if no other parts follow."""

    status: int
    content_type: str
    body: bytes
    is_whole: bool


class End(msgspec.Struct, frozen=True, tag=True):
    """No more parts follow."""


class Fault(msgspec.Struct, frozen=True, tag=True):
    """An error, by its stable reason."""

    reason: str
    message: str


ToModel = Load | Infer | Http | More | Stop
FromModel = Ready | Part | HttpPart | End | Fault
Call = Infer | Http

_ENCODER: Final = msgspec.msgpack.Encoder()
_TO_MODEL: Final = msgspec.msgpack.Decoder(ToModel)
_FROM_MODEL: Final = msgspec.msgpack.Decoder(FromModel)


def send(wire: socket.socket, message: ToModel | FromModel) -> None:
    """Write one message.

    Raises:
        Ended: The other end is closed.
        TimeoutError: The reader exceeds the socket's timeout.
    """
    body = _ENCODER.encode(message)
    try:
        wire.sendall(_LENGTH.pack(len(body)))
        wire.sendall(body)
    except TimeoutError:
        raise
    except OSError as error:
        raise Ended from error


def receive_call(wire: socket.socket) -> ToModel:
    """The next message of the server; raises like ``receive``."""
    return _TO_MODEL.decode(_read(wire, 0.0))


def receive(wire: socket.socket, timeout_seconds: float = 0.0) -> FromModel:
    """The next message of the model's process.

    Args:
        wire: The socket.
        timeout_seconds: Maximum time for the whole message; 0 is no limit.

    Raises:
        Ended: The process has ended, or its data is not a message.
        TimeoutError: It takes too long.
    """
    try:
        return _FROM_MODEL.decode(_read(wire, timeout_seconds))
    except (msgspec.DecodeError, MemoryError) as error:
        raise Ended from error


def _read(wire: socket.socket, timeout_seconds: float) -> bytearray:
    until = time.monotonic() + timeout_seconds if timeout_seconds else None
    (size,) = _LENGTH.unpack(_exactly(wire, _LENGTH.size, until))
    return _exactly(wire, size, until)


def _exactly(wire: socket.socket, size: int, until: float | None) -> bytearray:
    found = bytearray()
    while len(found) < size:
        if until is not None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            wire.settimeout(left)
        else:
            wire.settimeout(None)
        try:
            piece = wire.recv(min(size - len(found), _CHUNK))
        except TimeoutError:
            raise
        except OSError as error:
            raise Ended from error
        if not piece:
            raise Ended
        found += piece
    return found


def to_wire(tensors: Sequence[Tensor]) -> tuple[WireTensor, ...]:
    """Tensors in the form of a message."""
    return tuple(
        WireTensor(
            tensor.name,
            tensor.datatype,
            tensor.array.shape,
            tensor.array.reshape(-1).tolist()
            if tensor.datatype is Datatype.BYTES
            else tensor.array.tobytes(),
            dict(tensor.parameters),
        )
        for tensor in tensors
    )


def from_wire(tensors: Sequence[WireTensor]) -> tuple[Tensor, ...]:
    """The tensors of a message.

    Raises:
        ValueError: The size of the data does not match the shape.
    """
    return tuple(
        Tensor(tensor.name, tensor.datatype, _array(tensor), tensor.parameters)
        for tensor in tensors
    )


def _array(tensor: WireTensor) -> Any:
    dtype = NUMPY_DTYPE[tensor.datatype]
    if isinstance(tensor.data, bytes):
        return np.frombuffer(tensor.data, dtype).reshape(tensor.shape)
    array = np.empty(len(tensor.data), dtype)
    array[:] = tensor.data
    return array.reshape(tensor.shape)


def infer_call(request: InferRequest, *, is_stream: bool) -> Infer:
    """A request as a message."""
    return Infer(
        request.model_name,
        request.model_version,
        to_wire(request.inputs),
        tuple((output.name, dict(output.parameters)) for output in request.outputs),
        request.id,
        dict(request.parameters),
        is_stream,
    )


def request_of(call: Infer) -> InferRequest:
    """The request of a message."""
    return InferRequest(
        call.model_name,
        call.model_version,
        from_wire(call.inputs),
        tuple(RequestedOutput(name, parameters) for name, parameters in call.outputs),
        call.id,
        call.parameters,
    )


def http_call(call: HttpCall) -> Http:
    """An HTTP call as a message."""
    return Http(call.method, call.path, dict(call.query), dict(call.headers), call.body)


def http_of(call: Http) -> HttpCall:
    """The HTTP call of a message."""
    return HttpCall(call.method, call.path, call.query, call.headers, call.body)


def reply_part(reply: HttpReply, body: bytes, *, is_whole: bool) -> HttpPart:
    """A part of an HTTP answer as a message."""
    return HttpPart(reply.status, reply.content_type, body, is_whole)


def fault_of(fault: Fault) -> RuntimeFault:
    """The error of a message."""
    return _FAULTS.get(fault.reason, RuntimeFault)(fault.message)


def _kinds() -> Mapping[str, type[RuntimeFault]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return {kind.reason: kind for kind in kinds if issubclass(kind, RuntimeFault)}


_FAULTS: Final = _kinds()
