"""What workers and their supervisor say to each other, and how it looks as bytes.

    worker -> State, Ask, Answer -> supervisor -> Begin, View, Do, Answers -> worker

Each message is a MessagePack map behind its length in four bytes. Pure.
"""

import struct
from typing import Final, Literal

import msgspec

_LENGTH: Final = struct.Struct(">I")
LENGTH_BYTES: Final = _LENGTH.size

Act = Literal["load", "unload", "online", "offline", "collect"]


class Family(msgspec.Struct, frozen=True):
    """One metric of one worker.

    Attributes:
        name: Of the metric, without the suffixes of its samples.
        documentation: Its help text.
        kind: Prometheus type, such as "counter".
        samples: Name, labels and value of each series.
    """

    name: str
    documentation: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first message to a worker.

    Attributes:
        http_port: Port that all workers listen on.
        grpc_port: The same.
        takes_over: It replaces one that ended, so it listens when it is ready and not before.
        is_online: The traffic switch, None when nobody has moved it.
        unloaded: Models that clients have unloaded.
    """

    http_port: int
    grpc_port: int
    takes_over: bool
    is_online: bool | None
    unloaded: tuple[str, ...]


class VersionState(msgspec.Struct, frozen=True):
    """A ``ModelStatus``, which would bring the tensors into the supervisor."""

    name: str
    version: str
    state: str
    message: str


class State(msgspec.Struct, frozen=True, tag=True):
    """What a worker says of itself after each change.

    Attributes:
        is_listening: Clients may reach it.
        is_ready: Online, not draining, every model ready.
        models: Every version of every model.
    """

    is_listening: bool = False
    is_ready: bool = False
    models: tuple[VersionState, ...] = ()


class View(msgspec.Struct, frozen=True, tag=True):
    """The states of the other workers that clients may reach, or will at the first start."""

    peers: tuple[State, ...]


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A worker wants all, itself included, to do something; `number` is the worker's own."""

    number: int
    act: Act
    name: str = ""


class Do(msgspec.Struct, frozen=True, tag=True):
    """A worker shall do something and answer under this number."""

    number: int
    act: Act
    name: str = ""


class Answer(msgspec.Struct, frozen=True, tag=True):
    """What came of a Do.

    Attributes:
        number: Of the Do.
        reason: Of the error, "" for none.
        message: Of the error.
        families: The worker's metrics, for "collect".
    """

    number: int
    reason: str = ""
    message: str = ""
    families: tuple[Family, ...] = ()


class Answers(msgspec.Struct, frozen=True, tag=True):
    """What came of an Ask, of all workers."""

    number: int
    answers: tuple[Answer, ...]


ToWorker = Begin | View | Do | Answers
FromWorker = State | Ask | Answer

_ENCODER: Final = msgspec.msgpack.Encoder()
_TO_WORKER: Final = msgspec.msgpack.Decoder(ToWorker)
_FROM_WORKER: Final = msgspec.msgpack.Decoder(FromWorker)


def encode(message: ToWorker | FromWorker) -> bytes:
    """The message behind its length."""
    body = _ENCODER.encode(message)
    return _LENGTH.pack(len(body)) + body


def decode_length(head: bytes) -> int:
    """Bytes of the message behind these four."""
    (length,) = _LENGTH.unpack(head)
    return int(length)


def decode_to_worker(body: bytes) -> ToWorker:
    """The message of a supervisor."""
    return _TO_WORKER.decode(body)


def decode_from_worker(body: bytes) -> FromWorker:
    """The message of a worker."""
    return _FROM_WORKER.decode(body)
