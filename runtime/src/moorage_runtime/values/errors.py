"""The errors of the runtime, independent of any protocol.

The runtime raises only these for expected failures. Each frontend has one table from the class to
the status of its protocol. A ``reason`` is stable and appears in metrics and logs. Messages are
for the client: they name the field, the value and what is allowed, and contain neither a path of
the server's disk nor a stack trace.

    RuntimeFault
    |- InvalidRequest          the request is malformed or does not fit the model
    |- PayloadTooLarge         a body, decompressed body or message exceeds the limit
    |- UnsupportedEncoding     a content encoding that the server does not support
    |- UnsupportedDatatype     a datatype that the protocol does not support
    |- Forbidden               the settings of the server do not allow it
    |- NotFound
    |  |- ModelNotFound
    |  `- VersionNotFound
    |- Unavailable             retry later
    |  |- ModelNotReady        loading, or failed to load
    |  |- RepositoryUnread     the repository has not been read, so the model may exist
    |  |- QueueFull
    |  |- ServerBusy           the current requests hold too much memory
    |  `- ShuttingDown
    |- DeadlineExceeded
    |- InvalidConfig           an invalid model.yaml or setting (never the client's fault)
    `- ModelFailed             the model or its library raised an exception
"""

from collections.abc import Mapping
from typing import ClassVar, TypeVar

Value = TypeVar("Value")


class ListenError(Exception):
    """A port cannot be opened; the message says which one and why. Clients never receive it."""


class DeviceLost(Exception):
    """This process can no longer use its GPU and must be restarted. Clients never receive it."""


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
    """The server does not support the content encoding."""

    reason = "UnsupportedEncoding"


class UnsupportedDatatype(RuntimeFault):
    """The protocol does not support the datatype."""

    reason = "UnsupportedDatatype"


class Forbidden(RuntimeFault):
    """The settings of the server do not allow this request."""

    reason = "Forbidden"


class NotFound(RuntimeFault):
    """An object with the requested name does not exist."""

    reason = "NotFound"


class ModelNotFound(NotFound):
    """No model of this name is configured."""

    reason = "ModelNotFound"


class VersionNotFound(NotFound):
    """The model exists, but this version does not."""

    reason = "VersionNotFound"


class Unavailable(RuntimeFault):
    """The request is valid, but the server cannot answer it now."""

    reason = "Unavailable"


class ModelNotReady(Unavailable):
    """The model is loading, or failed to load."""

    reason = "ModelNotReady"


class RepositoryUnread(Unavailable):
    """The repository has not been read yet, so the model may exist."""

    reason = "RepositoryUnread"


class QueueFull(Unavailable):
    """The queue of the model is full."""

    reason = "QueueFull"


class ServerBusy(Unavailable):
    """The current requests of all models hold the maximum amount of memory."""

    reason = "ServerBusy"


class ShuttingDown(Unavailable):
    """The server received SIGTERM and accepts no new requests."""

    reason = "ShuttingDown"


class DeadlineExceeded(RuntimeFault):
    """The request's own deadline passed."""

    reason = "DeadlineExceeded"


class InvalidConfig(RuntimeFault):
    """An invalid model.yaml or setting; the message contains the path of the field."""

    reason = "InvalidConfig"


class ModelFailed(RuntimeFault):
    """The model raised an exception."""

    reason = "ModelFailed"


def reason_of(error: Exception) -> str:
    """The stable reason of an error; an unexpected error has the reason of RuntimeFault."""
    return error.reason if isinstance(error, RuntimeFault) else RuntimeFault.reason


def nearest(table: Mapping[type[RuntimeFault], Value], fault: RuntimeFault) -> Value:
    """The table's entry for the class of the fault, or for its nearest base class.

    Args:
        table: Contains at least RuntimeFault.
        fault: Any fault.
    """
    return next(table[base] for base in type(fault).__mro__ if base in table)
