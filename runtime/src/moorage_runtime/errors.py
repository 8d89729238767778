"""The errors that the runtime knows, independent of any protocol.

Every part raises these and only these for expected trouble; each frontend has one table from the
class to its protocol's status. A ``reason`` is stable and goes into metrics and logs. Messages are
written for the client: they name the field, the value and what was expected, and never carry a
path of the server's disk or a stack trace.

    RuntimeFault
    |- InvalidRequest          the client's request is wrong (malformed, mismatch, unknown tensor)
    |- PayloadTooLarge         body, decompressed body or message over the limit
    |- UnsupportedEncoding     a content encoding that the server does not speak
    |- UnsupportedDatatype     a datatype that this protocol can not carry
    |- NotFound
    |  |- ModelNotFound
    |  `- VersionNotFound
    |- Unavailable             try again later
    |  |- ModelNotReady        known, but loading or failed to load
    |  |- RepositoryUnread     what the server has is not known, so neither is what it has not
    |  |- QueueFull
    |  `- ShuttingDown
    |- DeadlineExceeded
    |- InvalidConfig           a model.yaml or setting is wrong (never a client's fault)
    `- ModelFailed             the model or its library raised
"""

from collections.abc import Mapping
from typing import ClassVar, TypeVar

Value = TypeVar("Value")


class ListenError(Exception):
    """A port cannot be opened; the text says which and why. No client ever sees it."""


class RuntimeFault(Exception):
    """Base of all expected errors; ``message`` is meant for the client."""

    reason: ClassVar[str] = "Internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(RuntimeFault):
    """The request is malformed or does not fit the model."""

    reason = "InvalidRequest"


class PayloadTooLarge(RuntimeFault):
    """The body is larger than the configured limit."""

    reason = "PayloadTooLarge"


class UnsupportedEncoding(RuntimeFault):
    """The content encoding is not one that the server reads."""

    reason = "UnsupportedEncoding"


class UnsupportedDatatype(RuntimeFault):
    """The protocol in use cannot carry this datatype."""

    reason = "UnsupportedDatatype"


class NotFound(RuntimeFault):
    """Something that was asked for by name does not exist."""

    reason = "NotFound"


class ModelNotFound(NotFound):
    """No model of this name is configured."""

    reason = "ModelNotFound"


class VersionNotFound(NotFound):
    """The model exists, this version of it does not."""

    reason = "VersionNotFound"


class Unavailable(RuntimeFault):
    """The request is fine; the server cannot answer it now."""

    reason = "Unavailable"


class ModelNotReady(Unavailable):
    """The model is known but still loading, or its load failed."""

    reason = "ModelNotReady"


class RepositoryUnread(Unavailable):
    """The name is none of a model, but the repository has not been read: it may become one."""

    reason = "RepositoryUnread"


class QueueFull(Unavailable):
    """Too many requests wait already."""

    reason = "QueueFull"


class ShuttingDown(Unavailable):
    """The server got SIGTERM and takes no new work."""

    reason = "ShuttingDown"


class DeadlineExceeded(RuntimeFault):
    """The request's own deadline passed."""

    reason = "DeadlineExceeded"


class InvalidConfig(RuntimeFault):
    """A model.yaml or a setting is wrong; the message names the path of the field."""

    reason = "InvalidConfig"


class ModelFailed(RuntimeFault):
    """The model raised while it ran."""

    reason = "ModelFailed"


def reason_of(error: Exception) -> str:
    """The stable reason of an error, RuntimeFault's own for one that nobody expected."""
    return error.reason if isinstance(error, RuntimeFault) else RuntimeFault.reason


def nearest(table: Mapping[type[RuntimeFault], Value], fault: RuntimeFault) -> Value:
    """What a frontend's table has for the fault's class, or for its nearest base there.

    Args:
        table: Has at least RuntimeFault.
        fault: Any fault.
    """
    return next(table[base] for base in type(fault).__mro__ if base in table)
