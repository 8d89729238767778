"""Whether a failed run is the fault of an empty input. Pure.

    library's exception --> failed() --> InvalidRequest or ModelFailed --> frontend

Some operators of a library accept empty tensors, and others fail on them. A client that sends one
to the latter has to change its request, and should not send it again.
"""

from collections.abc import Iterable

from moorage_runtime.values.errors import InvalidRequest, ModelFailed, RuntimeFault
from moorage_runtime.values.tensors import Tensor

__all__ = ["failed", "refusal"]


def failed(message: str, inputs: Iterable[Tensor]) -> RuntimeFault:
    """The error of a run in which the library failed with this message."""
    why = f"the model fails on empty tensors: {message}"
    return refusal(inputs, why) or ModelFailed(message)


def refusal(inputs: Iterable[Tensor], why: str) -> InvalidRequest | None:
    """The error that names the first empty input, and why it must not be; None without one."""
    for tensor in inputs:
        if not tensor.array.size:
            return InvalidRequest(
                f"input '{tensor.name}' has shape {list(tensor.shape)}: every dimension must be 1 "
                f"or more, because {why}"
            )
    return None
