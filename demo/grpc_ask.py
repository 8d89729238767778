"""Query a model over gRPC with only grpcio, for the demo.

    grpc_ask.py ADDRESS MODEL REQUEST.json

Reads an Open Inference Protocol JSON request, sends its first input as raw tensor data to
inference.GRPCInferenceService/ModelInfer, and prints the label. The messages are built from
descriptors at run time, so no generated code is needed.
"""

import json
import struct
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

F = descriptor_pb2.FieldDescriptorProto
# (name, number, type, message type or None, repeated); Open Inference Protocol, gRPC
MESSAGES: dict[str, list[tuple[str, int, int, str | None, bool]]] = {
    "Tensor": [
        ("name", 1, F.TYPE_STRING, None, False),
        ("datatype", 2, F.TYPE_STRING, None, False),
        ("shape", 3, F.TYPE_INT64, None, True),
    ],
    "ModelInferRequest": [
        ("model_name", 1, F.TYPE_STRING, None, False),
        ("inputs", 5, F.TYPE_MESSAGE, ".inference.Tensor", True),
        ("raw_input_contents", 7, F.TYPE_BYTES, None, True),
    ],
    "ModelInferResponse": [
        ("model_name", 1, F.TYPE_STRING, None, False),
        ("outputs", 5, F.TYPE_MESSAGE, ".inference.Tensor", True),
        ("raw_output_contents", 6, F.TYPE_BYTES, None, True),
    ],
}
TIMEOUT_SECONDS = 10


def make_messages() -> dict[str, Any]:
    """The message classes by name."""
    file = descriptor_pb2.FileDescriptorProto(
        name="ask.proto", package="inference", syntax="proto3"
    )
    for message, fields in MESSAGES.items():
        kind = file.message_type.add(name=message)
        for name, number, type_, of, repeated in fields:
            kind.field.add(
                name=name,
                number=number,
                type=type_,
                type_name=of,
                label=F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"inference.{name}"))
        for name in MESSAGES
    }


def flatten(data: list[Any]) -> list[float]:
    """Numbers of a nested list in row-major order."""
    while data and isinstance(data[0], list):
        data = list(chain.from_iterable(data))
    return data


def main() -> None:
    """Send the request and print the label."""
    address, model, path = sys.argv[1:]
    tensor = json.loads(Path(path).read_text())["inputs"][0]
    values = flatten(tensor["data"])
    kinds = make_messages()
    request = kinds["ModelInferRequest"](model_name=model)
    request.inputs.add(name=tensor["name"], datatype=tensor["datatype"], shape=tensor["shape"])
    request.raw_input_contents.append(struct.pack(f"<{len(values)}f", *values))
    # The cluster is on this machine, so the proxy of the environment cannot reach it.
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=kinds["ModelInferRequest"].SerializeToString,
            response_deserializer=kinds["ModelInferResponse"].FromString,
        )
        answer = call(request, timeout=TIMEOUT_SECONDS, wait_for_ready=True)
    for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True):
        if output.name == "label":
            print(struct.unpack("<q", raw)[0])


if __name__ == "__main__":
    main()
