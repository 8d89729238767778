"""A smoke test as the Open Inference Protocol writes it, and the outputs of the answer; pure.

Source: Open Inference Protocol V2, HTTP/REST "Inference Request JSON Object", gRPC "Inference"
and "Tensor Data".
"""

from collections.abc import Sequence
from typing import Any, cast

from moorage_operator._generated import oip_pb2
from moorage_operator.api.smoke_tests import InputTensor, Scalar
from moorage_operator.smoke import Outputs

from .elements import Unreadable, flat, packed, text, unpacked

__all__ = ["outputs_of_document", "outputs_of_message", "request_document", "request_message"]

# Where typed contents stand; FP16 and BF16 are raw always.
CONTENTS = {
    "BOOL": "bool_contents", "UINT8": "uint_contents", "UINT16": "uint_contents",
    "UINT32": "uint_contents", "UINT64": "uint64_contents", "INT8": "int_contents",
    "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip


def request_document(inputs: Sequence[InputTensor]) -> dict[str, Any]:
    """The body of an inference request."""
    return {
        "inputs": [
            {
                "name": each.name,
                "datatype": each.datatype,
                "shape": each.shape,
                "data": each.data,
            }
            for each in inputs
        ]
    }


def outputs_of_document(document: dict[str, Any]) -> Outputs:
    """The outputs of a JSON answer.

    Raises:
        Unreadable: It is no inference answer.
    """
    listed: object = document.get("outputs")
    if not isinstance(listed, list):
        raise Unreadable("it has no list of outputs")
    found: dict[str, Sequence[Scalar]] = {}
    for each in cast("list[object]", listed):
        tensor = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        name: object = tensor.get("name")
        if not isinstance(name, str) or "data" not in tensor:
            raise Unreadable("an output has no name or no data")
        found[name] = flat(tensor["data"])
    return found


def request_message(
    name: str, version: str, inputs: Sequence[InputTensor]
) -> oip_pb2.ModelInferRequest:
    """The message of an inference request; raw contents, which have every datatype."""
    return oip_pb2.ModelInferRequest(
        model_name=name,
        model_version=version,
        inputs=[
            oip_pb2.ModelInferRequest.InferInputTensor(
                name=each.name, datatype=each.datatype, shape=each.shape
            )
            for each in inputs
        ],
        raw_input_contents=[packed(each.datatype, each.data) for each in inputs],
    )


def outputs_of_message(message: oip_pb2.ModelInferResponse) -> Outputs:
    """The outputs of an answer with raw or typed contents.

    Raises:
        Unreadable: It does not hold what it says.
    """
    raw = list(message.raw_output_contents)
    if raw and len(raw) != len(message.outputs):
        raise Unreadable(f"{len(raw)} raw contents for {len(message.outputs)} outputs")
    return {
        tensor.name: unpacked(tensor.datatype, raw[index]) if raw else _typed(tensor)
        for index, tensor in enumerate(message.outputs)
    }


def _typed(tensor: oip_pb2.ModelInferResponse.InferOutputTensor) -> Sequence[Scalar]:
    field = CONTENTS.get(tensor.datatype)
    if field is None:
        raise Unreadable(f"datatype {tensor.datatype!r} has no typed contents")
    values = getattr(tensor.contents, field)
    return tuple(map(text, values)) if field == "bytes_contents" else tuple(values)
