"""Responses of the classify and regress APIs: the model's outputs become JSON results.

    classify  [[[label, score], ...], ...]      regress  [value, ...]

One entry per example, in the order of the request.
"""

from collections.abc import Iterable
from typing import Final

import orjson

from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs.dtypes import DT_NAME, FLOATS
from moorage_runtime.codec.tfs.signatures import BoundSignature, outputs_by_key
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import Datatype, Tensor

CLASSES: Final = "classes"
SCORES: Final = "scores"
OUTPUTS: Final = "outputs"


def encode_classification(
    outputs: Iterable[Tensor], signature: BoundSignature, batch: int
) -> bytes:
    """Label and score pairs; a missing label is ``""``, a missing score 0.0.

    Shapes: ``classes`` (batch, k), BYTES; ``scores`` (batch, k), FP32 or FP64.

    Raises:
        InvalidRequest: The signature has neither output, or their types or shapes are invalid.
    """
    named = outputs_by_key(outputs, signature)
    classes, scores = named.get(CLASSES), named.get(SCORES)
    if classes is None and scores is None:
        raise InvalidRequest(
            f"Expected classification signature outputs to contain at least one of "
            f'"{CLASSES}" or "{SCORES}". Signature: {signature.name}'
        )
    columns = {_class_count(tensor, batch) for tensor in (classes, scores) if tensor is not None}
    if len(columns) > 1:
        raise InvalidRequest(
            "Tensors class and score should match in dim_size(1). Got "
            + " vs. ".join(map(str, sorted(columns)))
        )
    width = columns.pop()
    labels = [b'""'] * (batch * width) if classes is None else _labels(classes)
    numbers = [b"0.0"] * (batch * width) if scores is None else _decimals(SCORES, scores)
    pairs = [
        b"[" + label + b"," + number + b"]" for label, number in zip(labels, numbers, strict=True)
    ]
    rows = (b",".join(pairs[row * width : (row + 1) * width]) for row in range(batch))
    return _document([b"[" + row + b"]" for row in rows])


def encode_regression(outputs: Iterable[Tensor], signature: BoundSignature, batch: int) -> bytes:
    """One decimal number per example.

    Shapes: ``outputs`` (batch,) or (batch, 1), FP32 or FP64.

    Raises:
        InvalidRequest: The signature lacks the output, or its type or shape is invalid.
    """
    tensor = outputs_by_key(outputs, signature).get(OUTPUTS)
    if tensor is None:
        raise InvalidRequest(
            f'Expected regression signature outputs to contain "{OUTPUTS}". '
            f"Signature: {signature.name}"
        )
    if tensor.shape[1:] not in {(), (1,)} or not tensor.shape:
        raise InvalidRequest(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] "
            f"but got {list(tensor.shape)}"
        )
    if tensor.shape[0] != batch:
        raise InvalidRequest(
            f"Input batch size did not match output batch size: {batch} vs. {tensor.shape[0]}"
        )
    return _document(_decimals(OUTPUTS, tensor))


def _class_count(tensor: Tensor, batch: int) -> int:
    if len(tensor.shape) != 2:
        raise InvalidRequest(
            f"Expected Tensor shape: [batch_size num_classes] but got {list(tensor.shape)}"
        )
    if tensor.shape[0] != batch:
        raise InvalidRequest(
            f"Expected {tensor.name} output batch size of {batch}. Got: {tensor.shape[0]}"
        )
    return tensor.shape[1]


def _labels(classes: Tensor) -> list[bytes]:
    if classes.datatype is not Datatype.BYTES:
        raise InvalidRequest(
            f"Expected {CLASSES} Tensor of DT_STRING. Got: {DT_NAME[classes.datatype]}"
        )
    return [orjson.dumps(tfs_document.text_of(label)) for label in classes.array.ravel()]


def _decimals(key: str, tensor: Tensor) -> list[bytes]:
    if tensor.datatype not in FLOATS:
        raise InvalidRequest(f"Expected {key} Tensor of DT_FLOAT. Got: {DT_NAME[tensor.datatype]}")
    text = tfs_document.encode_numbers(tensor.array.ravel())[1:-1]
    return text.split(b",") if text else []


def _document(results: list[bytes]) -> bytes:
    """The response under both keys.

    Spec: "result" (TensorFlow Serving's older documents). Peers: "results". We: both, because
    clients of either kind exist and ignore the other key.
    """
    if not results:
        raise InvalidRequest("Cannot convert empty results to JSON")
    value = b"[" + b",".join(results) + b"]"
    return b'{"results":' + value + b',"result":' + value + b"}"
