"""Converts smoke tests to and from GRPS messages; pure.

GRPS has no type for BOOL, unsigned integers of more than 8 bits and BF16. They are sent in the
next wider type, which the bundled runtime accepts.

Source: GRPS interface, "gtensors"; `grps.proto`.
"""

from collections.abc import Sequence

from moorage_operator.api.smoke_tests import InputTensor, Scalar
from moorage_operator.probe.reading.elements import Unreadable, limited
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs

from ._generated import grps_pb2

__all__ = ["outputs_of_message", "request_message"]

# Datatype to the name of its type; the field of its elements is `flat_<name>`.
CARRIERS = {
    "UINT8": "uint8", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "FP16": "float16", "FP32": "float32", "FP64": "float64", "BYTES": "string",
    "BOOL": "uint8", "UINT16": "int32", "UINT32": "int64", "UINT64": "int64", "BF16": "float32",
}  # fmt: skip
TYPES = {grps_pb2.DataType.Value(f"DT_{name.upper()}"): name for name in CARRIERS.values()}


def request_message(target: ProbeTarget, inputs: Sequence[InputTensor]) -> grps_pb2.GrpsMessage:
    """Build the message of a predict request.

    Raises:
        ValueError: A UINT64 element does not fit into INT64.
    """
    message = grps_pb2.GrpsMessage(model=target.way.infer_model)
    for each in inputs:
        carrier = CARRIERS[each.datatype]
        dtype = grps_pb2.DataType.Value(f"DT_{carrier.upper()}")
        tensor = message.gtensors.tensors.add(name=each.name, dtype=dtype, shape=each.shape)
        getattr(tensor, f"flat_{carrier}").extend(
            int(value) if isinstance(value, bool) else value for value in each.data
        )
    return message


def outputs_of_message(message: grps_pb2.GrpsMessage) -> Outputs:
    """Extract the outputs of a successful answer.

    Raises:
        Unreadable: It has no gtensors.
    """
    if message.WhichOneof("data_oneof") != "gtensors":
        raise Unreadable("it has no gtensors")
    return {each.name: _elements(each) for each in message.gtensors.tensors}


def _elements(tensor: grps_pb2.GenericTensor) -> Sequence[Scalar]:
    name = TYPES.get(tensor.dtype)
    if name is None:
        raise Unreadable(f"tensor {tensor.name!r} has no datatype")
    values = getattr(tensor, f"flat_{name}")
    limited(len(values))
    return tuple(values)
