"""Answers of model servers, in a form that all protocols share. Pure.

    driver --> Answer --> interrogation --> ProbeResult --> store --> Observed

A driver does not judge: `replicas` decides what an answer means for the model.
"""

from dataclasses import dataclass
from enum import StrEnum

from .smoke import SmokeOutcome


class AnswerReason(StrEnum):
    """The meaning of a server's answer or its absence, for all drivers."""

    READY = "Ready"
    NOT_READY = "NotReady"  # not ready, without a reason
    LOADING = "Loading"  # the model is loading
    LOAD_FAILED = "LoadFailed"  # loading failed; the message is the server's error
    MODEL_NOT_FOUND = "ModelNotFound"  # the message lists the server's models, if known
    VERSION_NOT_FOUND = "VersionNotFound"  # the server has the model, but not the version
    REFUSED = "Refused"  # nothing listens on the port
    TIMED_OUT = "TimedOut"
    WRONG_PROTOCOL = "WrongProtocol"  # a server answers in another protocol
    MALFORMED = "Malformed"  # the protocol is right, but the body cannot be read
    NOT_TRUSTED = "NotTrusted"  # TLS: its certificate cannot be verified
    TLS_MISMATCH = "TlsMismatch"  # only one side speaks TLS, or the handshake is broken
    UNAUTHORIZED = "Unauthorized"  # it requires a token that the operator does not have
    NOT_ASKED = "NotAsked"


BARRED = frozenset(
    {AnswerReason.NOT_TRUSTED, AnswerReason.TLS_MISMATCH, AnswerReason.UNAUTHORIZED}
)
"""A secured server whose answer says nothing about its protocol or its model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query. A `verdict` of None means unknown.

    `listed` means that the server has listed all its models, so that a missing one is not just
    starting to load.
    """

    verdict: bool | None
    reason: AnswerReason
    message: str = ""
    listed: bool = False


NOT_ASKED = Answer(None, AnswerReason.NOT_ASKED)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor in the model's metadata.

    A variable dimension is -1; a shape of None has an unknown rank.
    """

    name: str
    datatype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Server metadata."""

    name: str
    version: str = ""
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Model metadata; `context_length` is the number of tokens of a language model."""

    name: str
    versions: tuple[str, ...] = ()
    platform: str = ""
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    context_length: int | None = None


ANSWERED = "it answers for the model"
"""The evidence for a declared protocol before its own query was answered."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """The detected protocol of a server, with the evidence."""

    protocol: str
    transport: str
    port: int
    evidence: str


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The last answers of a container; they are invalid after a restart.

    Attributes:
        pod_uid: The uid of the pod.
        container_id: The id of the container.
        live: Whether the server is live.
        ready: Whether the server is ready.
        model_ready: Whether the model is ready.
        consecutive_unknown: The number of consecutive polls without a verdict on the model.
        spoken: The protocol of the answers, or the protocol that the server speaks instead.
        brought_online: Whether a server that starts offline was set online.
        described: Whether metadata was queried, with any result.
        server: The metadata of the server.
        model: The metadata of the model.
        smoke: The outcome of the last smoke tests.
        unauthorized: Why the metadata was refused for want of a token; "" if it was not.
    """

    pod_uid: str
    container_id: str
    live: Answer = NOT_ASKED
    ready: Answer = NOT_ASKED
    model_ready: Answer = NOT_ASKED
    consecutive_unknown: int = 0
    spoken: Spoken | None = None
    brought_online: bool = False
    described: bool = False
    server: ServerInfo | None = None
    model: ModelInfo | None = None
    smoke: SmokeOutcome | None = None
    unauthorized: str = ""
