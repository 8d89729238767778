"""Requests of the classify and regress APIs: examples of features become tensors.

    {"context": {feature: value | list}, "examples": [{feature: value | list, ...}, ...]}

A feature is a flat list of values of one kind (bytes, float or int64), determined by the JSON, as
in ``tf.Example``. The signature maps features to the model's inputs; each input gets one row per
example. A feature that the signature does not name is checked and then ignored, like TensorFlow
does.
"""

import math
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.codec.tfs.signatures import BoundSignature
from moorage_runtime.codec.tfs.values import decode_array, is_base64_object, show, type_name
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_KINDS: Final[dict[type, str]] = {str: "bytes", float: "float", int: "int64", bool: "int64"}

Features = dict[str, list[Any]]


def decode_examples(document: dict[str, Any], signature: BoundSignature) -> tuple[Tensor, ...]:
    """The tensors of a classify or regress request; their first dimension counts the examples.

    Raises:
        InvalidRequest: ``examples`` is not a list of at least one object; or a feature has
            mixed kinds, is in both the context and an example, is missing, or does not fit the
            model.
        UnsupportedDatatype: An input has a datatype without a JSON form.
    """
    context = _features(document["context"]) if "context" in document else {}
    examples = [_features(example) for example in _example_list(document)]
    for index, example in enumerate(examples):
        # Spec: "Features that appear here MUST NOT appear in examples".
        for name in filter(example.__contains__, context):
            raise InvalidRequest(
                f"Feature: {name} is in 'context' and must not be in example {index} as well"
            )
        example.update(context)
    return tuple(
        _tensor(name, examples, spec)
        for name, spec in signature.inputs.items()
        if not spec.optional or any(name in example for example in examples)
    )


def _example_list(document: dict[str, Any]) -> list[Any]:
    if "examples" not in document:
        raise InvalidRequest(
            f"JSON Value: {show(document)} key 'examples' is expected and was not found"
        )
    examples = document["examples"]
    if not isinstance(examples, list):
        raise InvalidRequest(
            f"JSON Value: {show(document)} Expecting 'examples' value to be an list/array"
        )
    if not examples:
        raise InvalidRequest(f"JSON Value: {show(document)} 'examples' value is an empty array")
    return examples  # pyright: ignore[reportUnknownVariableType] # JSON


def _features(example: Any) -> Features:
    if not isinstance(example, dict):
        raise InvalidRequest(f"Example must be JSON object but got JSON {type_name(example)}")
    return {name: _feature(name, value) for name, value in example.items()}  # pyright: ignore[reportUnknownArgumentType] # JSON


def _feature(name: str, value: Any) -> list[Any]:
    """The values of one feature, which have one kind; booleans are 1 and 0."""
    values: list[Any] = value if isinstance(value, list) else [value]
    kinds = list(map(_kind, values))
    if None in kinds:
        odd = values[kinds.index(None)]
        raise InvalidRequest(
            f"Feature: {name} has element with unexpected JSON type: {type_name(odd)}"
        )
    if len(set(kinds)) > 1:
        raise InvalidRequest(
            f"Unexpected element type in feature: {name} expecting type: {kinds[0]}"
        )
    return [_int64(name, number) for number in values] if "int64" in kinds else values


def _kind(value: Any) -> str | None:
    """The list of ``tf.train.Feature`` for the value, or None."""
    return "bytes" if is_base64_object(value) else _KINDS.get(type(value))


def _int64(name: str, number: int) -> int:
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise InvalidRequest(f"Feature: {name} has element {number}. Only int64 is supported.")
    return int(number)


def _tensor(name: str, examples: list[Features], spec: TensorSpec) -> Tensor:
    rows: list[list[Any]] = []
    for index, example in enumerate(examples):
        if name not in example:
            raise InvalidRequest(
                f"Feature: {name} is required but could not be found in example {index}"
            )
        rows.append(example[name])
    count = len(rows[0])
    for index, row in enumerate(rows):
        if len(row) != count:
            raise InvalidRequest(
                f"Feature: {name} has {len(row)} values in example {index} but {count} in example "
                "0; the numbers must be equal"
            )
    array = _decode(name, list(chain.from_iterable(rows)), spec.datatype)
    return Tensor(spec.name, spec.datatype, array.reshape(_shape(name, len(rows), count, spec)))


def _decode(name: str, values: list[Any], datatype: Datatype) -> NDArray[Any]:
    """A flat array of the values; int64 is accepted for every float, integer and boolean input."""
    try:
        if datatype is Datatype.BOOL and all(type(x) is int and x in (0, 1) for x in values):
            return np.array(values, np.bool_)
        return decode_array(values, datatype)
    except InvalidRequest as error:
        raise InvalidRequest(f"Feature: {name}: {error.message}") from error


def _shape(name: str, batch: int, count: int, spec: TensorSpec) -> tuple[int, ...]:
    """The input's shape with ``count`` values per example: [-1, 2, 2] and [-1, -1] allow 4 values.

    Raises:
        InvalidRequest: The values do not fill the input's dimensions in exactly one way.
    """
    row = spec.shape[1:]
    fixed = math.prod(size for size in row if size >= 0)
    free = sum(size < 0 for size in row)
    fills = count == fixed if not free else free == 1 and fixed and count % fixed == 0
    if spec.shape and fills:
        return (batch, *row)  # numpy computes the variable dimension
    raise InvalidRequest(
        f"Feature: {name} has {count} values per example, which do not fit input {spec.name!r} of "
        f"shape {list(spec.shape)}"
    )
