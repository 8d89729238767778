"""The interface of a protocol driver.

A driver sends one query to a server within the target's deadline and returns a value. It never
raises an exception for a broken, slow or hostile server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from moorage_operator.api.smoke_tests import InputTensor, SmokeTest
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, ServerInfo
from moorage_operator.values.json_answers import JsonAnswer
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs
from moorage_operator.values.words import quoted

HEALTH_LIMIT_BYTES = 64 << 10
"""The largest answer of a health endpoint that is accepted from an untrusted server. It consists
of a few bytes, or of an error message."""

ANSWER_LIMIT_BYTES = 1 << 20
"""The same limit for metadata and lists of models."""

INFERENCE_LIMIT_BYTES = 4 << 20
"""The same limit for the answer to a smoke test, which may hold an image."""


@dataclass(frozen=True, slots=True)
class Described:
    """The metadata that a server exposes; None for a missing part.

    `unauthorized` says why a part was refused for want of a token; "" if none was. `evidence` says
    what in it proves the protocol, like the message of `Driver.speaks`; "" if nothing does.
    """

    server: ServerInfo | None = None
    model: ModelInfo | None = None
    unauthorized: str = ""
    evidence: str = ""


class Driver(Protocol):
    """A protocol over a transport."""

    async def live(self, target: ProbeTarget) -> Answer:
        """Query whether the server is live."""
        ...

    async def ready(self, target: ProbeTarget) -> Answer:
        """Query whether the server as a whole is ready."""
        ...

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Query whether the target's model is ready, in the target's version."""
        ...

    async def describe(self, target: ProbeTarget) -> Described:
        """Query the metadata of the server and the model."""
        ...

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Query whether the server speaks this protocol, regardless of its model.

        The message of a positive answer is the evidence: the query and the kind of answer.
        """
        ...

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Set a server online that starts offline; whether it succeeded.

        Called only for protocols whose servers start offline.
        """
        ...

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """Return the model's outputs for a smoke test, or the server's error."""
        ...

    async def send(self, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
        """Return the answer to the JSON request of a smoke test, or the server's error."""
        ...


def unreadable(what: str, why: object) -> Answer:
    """Build the answer for an inference response that cannot be read."""
    message = quoted(f"the answer of {what} cannot be read: {why}")
    return Answer(None, AnswerReason.MALFORMED, message)


def refused_for_token(*replies: object) -> str:
    """Return the message of the first reply that requires a token, "" if there is none."""
    found = (
        each.message for each in replies if isinstance(each, Answer) and is_unauthorized(each)
    )
    return next(found, "")


def is_unauthorized(answer: Answer) -> bool:
    """Whether the server requires a token that the operator does not have."""
    return answer.reason is AnswerReason.UNAUTHORIZED


def no_tensors(protocol: str) -> Answer:
    """Build the answer to a smoke test with tensors for a protocol that has none."""
    message = f"protocol {protocol} has no tensors: use request and expect in spec.smokeTests"
    return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=message)


def no_requests() -> Answer:
    """Build the answer to a smoke test in JSON over gRPC."""
    message = "requests of smoke tests require transport HTTP"
    return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=message)


def version_not_found(target: ProbeTarget, versions: Sequence[str]) -> Answer:
    """Build the answer for a server that has the model only in other versions."""
    model = f"of model {target.model_name!r}"
    has = f"the server has versions {', '.join(versions)} {model}"
    return Answer(
        verdict=False,
        reason=AnswerReason.VERSION_NOT_FOUND,
        message=quoted(has if versions else f"the server lists no version {model}"),
    )


def evidence(text: str) -> Answer:
    """Build the positive answer of `Driver.speaks`."""
    return Answer(verdict=True, reason=AnswerReason.READY, message=text)
