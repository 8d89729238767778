"""The messages between workers and their supervisor, and their encoding.

    worker -> State, Ask, Answer, Beat -> supervisor -> Begin, View, Do, Answers -> worker

Each message is a MessagePack map with a length prefix of four bytes. Pure.
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
        name: Name of the metric, without the suffixes of its samples.
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
        grpc_port: Port that all workers listen on.
        takes_over: The worker replaces one that ended, so it listens only when it is ready.
        is_online: The traffic switch, or None if it was never used.
        unloaded: Models that clients have unloaded.
    """

    http_port: int
    grpc_port: int
    takes_over: bool
    is_online: bool | None
    unloaded: tuple[str, ...]


class VersionState(msgspec.Struct, frozen=True):
    """A ``ModelStatus``, without importing tensors into the supervisor."""

    name: str
    version: str
    state: str
    message: str


class State(msgspec.Struct, frozen=True, tag=True):
    """The state of a worker, sent after each change.

    Attributes:
        is_listening: Clients may reach it.
        is_ready: Online, not draining, every model ready.
        models: Every version of every model.
    """

    is_listening: bool = False
    is_ready: bool = False
    models: tuple[VersionState, ...] = ()


class View(msgspec.Struct, frozen=True, tag=True):
    """The states of the other workers that clients can reach, or will reach at the first start."""

    peers: tuple[State, ...]


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A worker's request that all workers, including itself, do something; `number` is its own."""

    number: int
    act: Act
    name: str = ""


class Do(msgspec.Struct, frozen=True, tag=True):
    """A command to a worker, which answers with this number."""

    number: int
    act: Act
    name: str = ""


class Answer(msgspec.Struct, frozen=True, tag=True):
    """The result of a Do.

    Attributes:
        number: Number of the Do.
        reason: Reason of the error, "" without one.
        message: Message of the error.
        families: The worker's metrics, for "collect".
    """

    number: int
    reason: str = ""
    message: str = ""
    families: tuple[Family, ...] = ()


class Answers(msgspec.Struct, frozen=True, tag=True):
    """The combined result of an Ask."""

    number: int
    answers: tuple[Answer, ...]


class Beat(msgspec.Struct, frozen=True, tag=True):
    """A worker's event loop runs."""


ToWorker = Begin | View | Do | Answers
FromWorker = State | Ask | Answer | Beat

_ENCODER: Final = msgspec.msgpack.Encoder()
_TO_WORKER: Final = msgspec.msgpack.Decoder(ToWorker)
_FROM_WORKER: Final = msgspec.msgpack.Decoder(FromWorker)


def encode(message: ToWorker | FromWorker) -> bytes:
    """The message with its length prefix."""
    body = _ENCODER.encode(message)
    return _LENGTH.pack(len(body)) + body


def decode_length(head: bytes) -> int:
    """The length of the message, from its prefix."""
    (length,) = _LENGTH.unpack(head)
    return int(length)


def decode_to_worker(body: bytes) -> ToWorker:
    """The message of a supervisor."""
    return _TO_WORKER.decode(body)


def decode_from_worker(body: bytes) -> FromWorker:
    """The message of a worker."""
    return _FROM_WORKER.decode(body)
