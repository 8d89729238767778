"""Several requests as one along their first dimension, and one answer as several again.

    requests -> key, merge -> model -> split -> the outputs of each

Pure. ``split(merge(requests))`` gives back each request's own rows. Also here: what a merged run
is compared with before it is believed, see ``policy.Trials``.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.inference import InferRequest
from moorage_runtime.tensors import Datatype, Parameter, Parameters, Tensor

# How far floating-point numbers of equal rows may lie apart, of the tensor's largest: the order
# of a sum depends on the size of the batch. Far above what rounding does to deep models, far
# below what a mixture of rows does.
_TOLERANCE: Final = {Datatype.FP16: 1e-2, Datatype.FP32: 1e-3, Datatype.FP64: 1e-6}
# Members of a sequence are answered in turn, by whatever state a model keeps.
_SEQUENCE: Final = "sequence_"


class SplitError(Exception):
    """The model's answer to several requests has not as many rows as they have."""


def rows(request: InferRequest) -> int:
    """The size of the first dimension of every input; 0 when they differ or there is none."""
    sizes = {tensor.array.shape[0] if tensor.array.ndim else 0 for tensor in request.inputs}
    return sizes.pop() if len(sizes) == 1 else 0


def key(request: InferRequest) -> Hashable:
    """Equal for requests that may be merged with each other; None when it must run alone.

    Equal are names, datatypes, parameters and all dimensions but the first of the inputs, in
    their order, the requested outputs and the request's parameters.
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
    """One request with the rows of all, in their order; arrays are copied.

    Args:
        requests: At least one, all of the same key.
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
    """Each request's outputs, sharing memory with the whole.

    Args:
        outputs: Of the merged request.
        sizes: Rows of each request, in the order of merging.

    Raises:
        SplitError: An output has not one row for each row of the requests.
    """
    total = sum(sizes)
    for tensor in outputs:
        if not tensor.array.ndim or tensor.array.shape[0] != total:
            raise SplitError(
                f"output '{tensor.name}' has shape {list(tensor.array.shape)} for a batch of "
                f"{total}, expected {total} as its first dimension"
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


def contrast(request: InferRequest) -> InferRequest:
    """A request of the same key and size that differs in every number: 0, but 1 for a 0.

    Rows that influence one another show it when they are merged with these, even where all the
    real requests are the same. Elements of type BYTES become empty.
    """
    inputs = tuple(
        Tensor(tensor.name, tensor.datatype, _other(tensor), tensor.parameters)
        for tensor in request.inputs
    )
    return InferRequest(
        request.model_name,
        request.model_version,
        inputs,
        request.outputs,
        parameters=request.parameters,
    )


def agree(found: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    """Whether two answers differ in no more than the rounding of floating-point sums."""
    return len(found) == len(expected) and all(map(_same, found, expected))


def _items(parameters: Parameters) -> tuple[tuple[str, type, Parameter], ...]:
    # 1 and True are equal, but not to every model
    return tuple((name, type(value), value) for name, value in sorted(parameters.items()))


def _other(tensor: Tensor) -> NDArray[Any]:
    if tensor.datatype is Datatype.BYTES:
        return np.full(tensor.array.shape, b"", dtype=np.object_)
    return (tensor.array == 0).astype(tensor.array.dtype)


def _same(found: Tensor, expected: Tensor) -> bool:
    if found.name != expected.name or found.array.shape != expected.array.shape:
        return False
    tolerance = _TOLERANCE.get(expected.datatype)
    if tolerance is None or not expected.array.size:
        return bool(np.array_equal(found.array, expected.array))
    finite = np.abs(expected.array[np.isfinite(expected.array)])
    largest = float(finite.max()) if finite.size else 0.0
    return bool(
        np.allclose(
            found.array, expected.array, rtol=0.0, atol=tolerance * largest, equal_nan=True
        )
    )
