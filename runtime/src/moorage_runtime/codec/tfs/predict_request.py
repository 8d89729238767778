"""Requests of the predict API: a JSON document becomes tensors.

    row       {"instances": [item, ...]}
    columnar  {"inputs": value | {name: value, ...}}

An item is a value, a nested list, or an object of named inputs; the items are stacked along a new
first dimension. The fast path decodes the whole stack at once. Only if that fails are the items
checked one by one, to name the invalid one.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from moorage_runtime.codec.json.number_list import NumberList
from moorage_runtime.codec.tfs.signatures import BoundSignature
from moorage_runtime.codec.tfs.values import decode_array, is_base64_object, show
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

# Number of values that are decoded together in the search for the invalid one.
_RUN_ELEMENTS: Final = 1024


class PredictCall(msgspec.Struct, frozen=True):
    """A decoded predict request.

    Attributes:
        inputs: Tensors under the model's own names.
        row: The request has the row format, so the response has it too.
    """

    inputs: tuple[Tensor, ...]
    row: bool


def decode_predict(document: dict[str, Any], signature: BoundSignature) -> PredictCall:
    """The tensors of a predict request.

    Raises:
        InvalidRequest: Both or neither of ``instances`` and ``inputs`` are set, a list is empty
            or ragged, a name is not in the signature, or a value does not fit its datatype.
        UnsupportedDatatype: An input has a datatype without a JSON form.
    """
    if not signature.inputs:
        raise InvalidRequest(
            f"Failed to get input map for signature: {signature.name}; "
            "the model declares no inputs"
        )
    if "instances" in document:
        if "inputs" in document:
            raise InvalidRequest(
                f"JSON Value: {show(document)} Not formatted correctly expecting only one of "
                "'inputs' or 'instances' keys to exist"
            )
        return PredictCall(_decode_rows(_instances(document), signature.inputs), row=True)
    if "inputs" in document:
        return PredictCall(_decode_columns(document["inputs"], signature.inputs), row=False)
    raise InvalidRequest("Missing 'inputs' or 'instances' key")


def _instances(document: dict[str, Any]) -> list[Any] | NumberList:
    instances = document["instances"]
    if isinstance(instances, NumberList):
        return instances
    if not isinstance(instances, list):
        raise InvalidRequest(
            f"JSON Value: {show(document)} Expecting 'instances' to be an list/array"
        )
    if not instances:
        raise InvalidRequest(f"JSON Value: {show(document)} No values in 'instances' array")
    return instances  # pyright: ignore[reportUnknownVariableType] # JSON


def _decode_rows(
    instances: list[Any] | NumberList, inputs: Mapping[str, TensorSpec]
) -> tuple[Tensor, ...]:
    if isinstance(instances, NumberList) or not _is_named(instances[0]):
        spec = _only_input(inputs, "instances is a plain list, but expecting list of objects")
        return (_stack(instances, spec, where=""),)
    _check_names(instances, inputs)
    return tuple(
        _stack([row[key] for row in instances], spec, where=f" key: {key}")
        for key, spec in inputs.items()
        if key in instances[0]
    )


def _decode_columns(value: Any, inputs: Mapping[str, TensorSpec]) -> tuple[Tensor, ...]:
    if not _is_named(value):
        spec = _only_input(inputs, "inputs is a plain value/list, but expecting an object")
        return (Tensor(spec.name, spec.datatype, decode_array(value, spec.datatype)),)
    for key in _required(inputs):
        if key not in value:
            raise InvalidRequest(f"Missing named input: {key} in 'inputs' object.")
    return tuple(
        Tensor(spec.name, spec.datatype, decode_array(value[key], spec.datatype))
        for key, spec in inputs.items()
        if key in value
    )


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and not is_base64_object(value)


def _required(inputs: Mapping[str, TensorSpec]) -> list[str]:
    return [key for key, spec in inputs.items() if not spec.optional]


def _only_input(inputs: Mapping[str, TensorSpec], complaint: str) -> TensorSpec:
    """The input for unnamed values: the only one, or the only required one."""
    candidates = list(inputs) if len(inputs) == 1 else _required(inputs)
    if len(candidates) != 1:
        raise InvalidRequest(
            f"{complaint} as multiple input tensors required as per tensorinfo_map: "
            + ",".join(inputs)
        )
    return inputs[candidates[0]]


def _check_names(instances: list[Any], inputs: Mapping[str, TensorSpec]) -> None:
    """Every instance is an object with the names of the inputs."""
    expected: AbstractSet[str] = instances[0].keys()
    if not set(_required(inputs)) <= expected <= inputs.keys():
        expected = inputs.keys()
    for index, row in enumerate(instances):
        if not _is_named(row):
            raise InvalidRequest(f"Expecting object but got list at item {index} of input list")
        if row.keys() != expected:
            raise InvalidRequest(
                f"Failed to process element: {index} of 'instances' list. JSON object: "
                f"{show(row)} keys must be equal to: {','.join(sorted(expected))}"
            )


def _stack(values: list[Any] | NumberList, spec: TensorSpec, *, where: str) -> Tensor:
    """One tensor whose first dimension is the number of instances."""
    try:
        return Tensor(spec.name, spec.datatype, decode_array(values, spec.datatype))
    except InvalidRequest:
        elements = values.elements() if isinstance(values, NumberList) else values
        _explain(elements, spec.datatype, where=where)
        raise


def _explain(values: Iterable[Any], datatype: Datatype, *, where: str) -> None:
    """Raise the error of the first invalid instance, or of the first that differs from the first
    one.
    """
    first: tuple[int, ...] | None = None
    for index, value in _suspects(values, datatype):
        if not where and _is_named(value):
            raise InvalidRequest(
                f"Expecting value/list but got object at item {index} of input list"
            )
        try:
            shape = decode_array(value, datatype).shape
        except InvalidRequest as error:
            complaint = error.message
        else:
            first = shape if first is None else first
            if shape == first:
                continue
            complaint = f"Expecting shape {_listed(first)} but got: {_listed(shape)}"
        raise InvalidRequest(
            f"Failed to process element: {index}{where} of 'instances' list. Error: {complaint}"
        )


def _suspects(values: Iterable[Any], datatype: Datatype) -> Iterator[tuple[int, Any]]:
    """The first value, and the values of every run that does not decode to its shape.

    Decoding each value separately takes about 5 µs, which adds up to half a minute for the largest
    body.
    """
    rest, index = iter(values), 0
    shape: tuple[int, ...] | None = None
    while run := list(itertools.islice(rest, _RUN_ELEMENTS)):
        try:
            if shape is None:
                shape = decode_array(run[0], datatype).shape
                yield 0, run[0]
            is_regular = decode_array(run, datatype).shape[1:] == shape
        except InvalidRequest:
            is_regular = False
        if not is_regular:
            yield from enumerate(run, index)
        index += len(run)


def _listed(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
