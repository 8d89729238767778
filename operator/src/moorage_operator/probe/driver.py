"""What every protocol's driver can be asked.

A driver is the thin shell between a target and its server: it asks one question within the
target's deadline and returns a value. It never raises for a sick, slow or hostile server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from moorage_operator.answers import (
    Answer,
    AnswerReason,
    ModelInfo,
    ServerInfo,
)
from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.planned import ProbeTarget
from moorage_operator.smoke import Outputs

ANSWER_LIMIT_BYTES = 1 << 20
"""A server is not trusted: a health or metadata answer above this is refused, never stored."""

INFERENCE_LIMIT_BYTES = 4 << 20
"""The same for the answer to a smoke test: an image's mask is larger than any metadata."""

MESSAGE_LIMIT = 300
"""Characters of a server's own words that are repeated in a status message."""


@dataclass(frozen=True, slots=True)
class Described:
    """What the servers say of themselves; None where it was not told."""

    server: ServerInfo | None = None
    model: ModelInfo | None = None


class Driver(Protocol):
    """One protocol over one transport."""

    async def live(self, target: ProbeTarget) -> Answer:
        """Whether the server lives."""
        ...

    async def ready(self, target: ProbeTarget) -> Answer:
        """Whether the server as a whole is ready."""
        ...

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Whether the target's model, in the target's version, answers requests."""
        ...

    async def describe(self, target: ProbeTarget) -> Described:
        """Server and model metadata."""
        ...

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Whether the server answers in this protocol, whatever it says of the model.

        The message of a yes is the evidence: the question, and what its answer is.
        """
        ...

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Tell a server that starts offline to take traffic; whether it does now.

        Asked only of targets of a protocol whose servers start so.
        """
        ...

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """The model's outputs for a smoke test, or why there are none, in the server's words."""
        ...


def quoted(text: str) -> str:
    """A server's words as one short printable line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…"


def unreadable(what: str, why: object) -> Answer:
    """The answer to an inference request whose outputs cannot be read."""
    told = quoted(f"the answer of {what} cannot be read: {why}")
    return Answer(None, AnswerReason.MALFORMED, told)


def version_not_found(target: ProbeTarget, versions: Sequence[str]) -> Answer:
    """The answer of a server that has the model in other versions alone."""
    has = ", ".join(versions) or "none that it names"
    return Answer(
        verdict=False,
        reason=AnswerReason.VERSION_NOT_FOUND,
        message=quoted(f"the server has versions {has} of model {target.model_name!r}"),
    )


def evidence(text: str) -> Answer:
    """The yes of `Driver.speaks`."""
    return Answer(verdict=True, reason=AnswerReason.READY, message=text)
