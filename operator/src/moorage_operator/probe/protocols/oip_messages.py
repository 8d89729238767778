"""Converts smoke tests to and from gRPC messages of the Open Inference Protocol; pure.

Source: Open Inference Protocol V2, gRPC "Inference" and "Tensor Data".
"""

from collections.abc import Sequence

from moorage_operator.api.smoke_tests import InputTensor, Scalar
from moorage_operator.probe.reading.elements import Unreadable, limited, packed, text, unpacked
from moorage_operator.values.smoke import Outputs

from ._generated import oip_pb2

__all__ = ["outputs_of_message", "request_message"]

# The fields of typed contents; FP16 and BF16 are always raw.
CONTENTS = {
    "BOOL": "bool_contents", "UINT8": "uint_contents", "UINT16": "uint_contents",
    "UINT32": "uint_contents", "UINT64": "uint64_contents", "INT8": "int_contents",
    "INT16": "int_contents", "INT32": "int_contents", "INT64": "int64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip


def request_message(
    name: str, version: str, inputs: Sequence[InputTensor]
) -> oip_pb2.ModelInferRequest:
    """Build an inference request with raw contents, which support all datatypes."""
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
    """Extract the outputs of an answer with raw or typed contents.

    Raises:
        Unreadable: The contents do not match the description.
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
    limited(len(values))
    return tuple(map(text, values)) if field == "bytes_contents" else tuple(values)
