"""Turns any exception of a model's own code into an error of the request.

A model can raise anything: ``SystemExit`` from ``sys.exit``, ``KeyboardInterrupt``, asyncio's
``CancelledError``, ``StopIteration``. In the event loop or in a future, these would end the
server, look like a cancellation, or break the future.
"""

import logging
import os
from collections.abc import Callable
from typing import Final, TypeVar

from moorage_runtime.values.errors import ModelFailed, RuntimeFault

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_CHARACTERS: Final = 500


def contained(call: Callable[[], Result]) -> Result:
    """Run a part of a model's own code.

    Raises:
        RuntimeFault: The model's error if it is meant for the client, otherwise ModelFailed.
    """
    try:
        return call()
    except BaseException as error:
        raise fault_of(error) from error


def fault_of(error: BaseException, *, is_logged: bool = True) -> RuntimeFault:
    """The error itself if it is meant for the client, otherwise a ModelFailed; logged."""
    if isinstance(error, RuntimeFault) and isinstance(getattr(error, "message", None), str):
        return error
    if is_logged:
        log.error("the model's own code raised an exception", exc_info=error)
    return ModelFailed(f"the model failed: {sentence_of(error)}")


def sentence_of(error: BaseException) -> str:
    """The type of an error and the first line of its message, for clients; no trace.

    An error of the operating system has its words and the name of the file, without its number and
    without folders of this machine.
    """
    kind = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        file = os.path.basename(str(error.filename or ""))  # noqa: PTH119 - it may be any text
        return f"{kind}: {error.strerror}" + (f": '{file}'" if file else "")
    try:
        lines = str(error).strip().splitlines()
    except BaseException:  # noqa: BLE001 - the model's own code creates the text
        lines = []
    return f"{kind}: {lines[0][:_CHARACTERS]}" if lines else kind
