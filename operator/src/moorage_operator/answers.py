"""What a model server said, in words that all protocols share. Pure.

    driver --> Answer --> interrogation --> ProbeResult --> store --> Observed

A driver asks and never judges: what an answer means for the model, `replicas` decides.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .smoke import SmokeOutcome


class AnswerReason(StrEnum):
    """What a server's answer, or its absence, means; the drivers' shared vocabulary."""

    READY = "Ready"
    NOT_READY = "NotReady"  # the server says no, and not why
    LOADING = "Loading"  # the server says that it loads
    LOAD_FAILED = "LoadFailed"  # the server says that loading failed; message: its own text
    MODEL_NOT_FOUND = "ModelNotFound"  # message: what the server has, where it can tell
    VERSION_NOT_FOUND = "VersionNotFound"  # the model is there, the version is not
    REFUSED = "Refused"  # nothing listens on the port
    TIMED_OUT = "TimedOut"
    WRONG_PROTOCOL = "WrongProtocol"  # something answers, in another protocol
    MALFORMED = "Malformed"  # right protocol, body that cannot be read
    NOT_ASKED = "NotAsked"


@dataclass(frozen=True, slots=True)
class Answer:
    """One question's outcome. `verdict` None: unknown, nobody said yes or no.

    `listed` says that the server has shown all that it has, so that what is not there is not on
    its way either.
    """

    verdict: bool | None
    reason: AnswerReason
    message: str = ""
    listed: bool = False


NOT_ASKED = Answer(None, AnswerReason.NOT_ASKED)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor as the model's metadata declares it.

    A variable dimension is -1; a shape of None is one whose rank is not told either.
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
    """Model metadata."""

    name: str
    versions: tuple[str, ...] = ()
    platform: str = ""
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()


ANSWERED = "it answers for the model"
"""The evidence for a declared protocol until its own question was answered."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """The protocol in which a server was found to answer, and the answer that showed it."""

    protocol: str
    transport: str
    port: int
    evidence: str


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The last answers of one container of one pod, first given at `asked_at`.

    `consecutive_unknown` counts the polls in a row, this one included, whose model-ready verdict
    was None. `spoken` is the protocol of the answers, or, where the target's own is not answered,
    what the server speaks instead. `brought_online` is set once a server that starts offline was
    told to take traffic, `described` once metadata was asked for, whatever came of it. `smoke` is
    how the smoke tests ended that were run last. A result belongs to a container: a restart makes
    it void.
    """

    pod_uid: str
    container_id: str
    asked_at: datetime
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
