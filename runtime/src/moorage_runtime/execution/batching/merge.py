"""Merges requests along their first dimension, and splits the response.

    requests -> key, merge -> model -> split -> the outputs of each request

Pure. ``split(merge(requests))`` returns each request's own rows.
"""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Parameter, Parameters, Tensor

# Requests of a sequence depend on the state of the model, so they run in order.
_SEQUENCE: Final = "sequence_"


class SplitError(Exception):
    """The response to a merged request does not have one row per row of the request."""


def rows(request: InferRequest) -> int:
    """The size of the first dimension of every input; 0 if the sizes differ or there is none."""
    sizes = {tensor.array.shape[0] if tensor.array.ndim else 0 for tensor in request.inputs}
    return sizes.pop() if len(sizes) == 1 else 0


def key(request: InferRequest) -> Hashable:
    """Equal for requests that can be merged; None if a request must run alone.

    The key contains names, datatypes, parameters and all dimensions except the first of the
    inputs, in their order, the requested outputs and the request's parameters.
    """
    if rows(request) < 1 or any(name.startswith(_SEQUENCE) for name in request.parameters):
        return None
    inputs = tuple(
        (tensor.name, tensor.datatype, tensor.array.shape[1:], _items(tensor.parameters))
        for tensor in request.inputs
    )
    outputs = tuple((output.name, _items(output.parameters)) for output in request.outputs)
    return inputs, outputs, _items(request.parameters)


def merge(requests: Sequence[InferRequest]) -> InferRequest:
    """One request with the rows of all requests, in their order; arrays are copied.

    Args:
        requests: At least one, all with the same key.
    """
    first = requests[0]
    inputs = tuple(
        Tensor(
            tensor.name,
            tensor.datatype,
            np.concatenate([request.inputs[place].array for request in requests]),
            tensor.parameters,
        )
        for place, tensor in enumerate(first.inputs)
    )
    return InferRequest(
        first.model_name,
        first.model_version,
        inputs,
        first.outputs,
        parameters=first.parameters,
    )


def split(outputs: Sequence[Tensor], sizes: Sequence[int]) -> tuple[tuple[Tensor, ...], ...]:
    """Each request's outputs, as views of the whole.

    Args:
        outputs: Outputs of the merged request.
        sizes: Number of rows of each request, in the order of merging.

    Raises:
        SplitError: An output does not have one row per row of the requests.
    """
    total = sum(sizes)
    for tensor in outputs:
        if not tensor.array.ndim or tensor.array.shape[0] != total:
            raise SplitError(
                f"output '{tensor.name}' has shape {list(tensor.array.shape)} for a batch of "
                f"{total}: its first dimension must be {total}"
            )
    parts: list[tuple[Tensor, ...]] = []
    start = 0
    for size in sizes:
        end = start + size
        parts.append(
            tuple(Tensor(t.name, t.datatype, t.array[start:end], t.parameters) for t in outputs)
        )
        start = end
    return tuple(parts)


def _items(parameters: Parameters) -> tuple[tuple[str, type, Parameter], ...]:
    # 1 and True are equal in Python, but may differ for a model
    return tuple((name, type(value), value) for name, value in sorted(parameters.items()))
