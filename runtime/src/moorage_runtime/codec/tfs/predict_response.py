"""Responses of the predict API: tensors become a JSON document, in the form of the request.

    row       {"predictions": [item, ...]}
    columnar  {"outputs": value | {name: value, ...}}

The name of a single output is omitted. Strings of an output whose name ends in ``_bytes`` are
binary.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from numpy.typing import NDArray

from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs.dtypes import JSON_DATATYPES, short_name
from moorage_runtime.codec.tfs.signatures import BoundSignature, outputs_by_key
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import Datatype, Tensor

_BINARY_SUFFIX: Final = "_bytes"


def encode_predict(outputs: Iterable[Tensor], signature: BoundSignature, *, row: bool) -> bytes:
    """The response to a predict request.

    Args:
        outputs: What the model returned for requested_outputs(signature).
        signature: Defines the keys of the outputs.
        row: Row format instead of columnar.

    Raises:
        InvalidRequest: An output has no JSON form, or the outputs have no common first dimension
            for rows.
    """
    named = outputs_by_key(outputs, signature)
    if not named:
        raise InvalidRequest("Cannot convert empty tensor map to JSON")
    for tensor in named.values():
        if tensor.datatype not in JSON_DATATYPES:
            raise InvalidRequest(
                "Failed to write JSON value for tensor type: " + short_name(tensor.datatype)
            )
    return _encode_rows(named) if row else _encode_columns(named)


def _encode_columns(named: Mapping[str, Tensor]) -> bytes:
    texts = {key: _encode_array(key, tensor, tensor.array) for key, tensor in named.items()}
    value = texts.popitem()[1] if len(texts) == 1 else _object(texts)
    return b'{"outputs":' + value + b"}"


def _encode_rows(named: Mapping[str, Tensor]) -> bytes:
    _check_batch(named)
    if len(named) == 1:
        ((key, tensor),) = named.items()
        return b'{"predictions":' + _encode_array(key, tensor, tensor.array) + b"}"
    columns = [_row_texts(key, tensor) for key, tensor in named.items()]
    rows = (_object(dict(zip(named, row, strict=True))) for row in zip(*columns, strict=True))
    return b'{"predictions":[' + b",".join(rows) + b"]}"


def _check_batch(named: Mapping[str, Tensor]) -> None:
    batch: int | None = None
    for key, tensor in named.items():
        if not tensor.shape:
            raise InvalidRequest(f"Tensor name: {key} has no shape information")
        if batch is not None and tensor.shape[0] != batch:
            raise InvalidRequest(
                f"Tensor name: {key} has inconsistent batch size: {tensor.shape[0]} "
                f"expecting: {batch}"
            )
        batch = tensor.shape[0]


def _row_texts(key: str, tensor: Tensor) -> list[bytes]:
    """The JSON of each row."""
    array = tensor.array
    if tensor.datatype is Datatype.BYTES or array.size == 0:
        return [_encode_array(key, tensor, array[index, ...]) for index in range(len(array))]
    # Numbers contain no brackets: in the text of a rank-3 array, "]],[[" occurs only between rows.
    depth = array.ndim - 1
    opened, closed = b"[" * depth, b"]" * depth
    text = _encode_array(key, tensor, array)
    inner = text[depth + 1 : -depth - 1].split(closed + b"," + opened)
    return [opened + row + closed for row in inner]


def _encode_array(key: str, tensor: Tensor, array: NDArray[Any]) -> bytes:
    if tensor.datatype is Datatype.BYTES:
        return tfs_document.encode_strings(array, binary=key.endswith(_BINARY_SUFFIX))
    return tfs_document.encode_numbers(array)


def _object(texts: Mapping[str, bytes]) -> bytes:
    members = (orjson.dumps(key) + b":" + text for key, text in texts.items())
    return b"{" + b",".join(members) + b"}"
