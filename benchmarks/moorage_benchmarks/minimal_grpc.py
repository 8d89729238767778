"""The least that serves a model over gRPC on grpcio's asyncio server: parse, infer, answer.

    python -m moorage_benchmarks.minimal_grpc REPOSITORY

It checks nothing, counts nothing and limits nothing, so it is the floor of its library. The
models are in REPOSITORY/NAME/1/model.onnx; raw tensors only.
"""

import asyncio
import sys
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import onnxruntime as ort
import uvloop

from moorage_runtime.codec._generated import oip_pb2 as pb

METHOD = "/inference.GRPCInferenceService/ModelInfer"
_DATATYPES = {"float32": "FP32", "int64": "INT64"}


class Models:
    """The one method."""

    def __init__(self, repository: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._sessions = {
            path.parents[1].name: ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
            for path in repository.glob("*/1/model.onnx")
        }

    async def infer(self, request: pb.ModelInferRequest, context: object) -> pb.ModelInferResponse:
        """Answer with every output."""
        del context
        session = self._sessions[request.model_name]
        feeds = {
            tensor.name: np.frombuffer(raw, np.float32).reshape(tensor.shape)
            for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        response = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
        names = [node.name for node in session.get_outputs()]
        for name, array in zip(names, session.run(names, feeds), strict=True):
            output = np.asarray(array)
            response.outputs.add(
                name=name, datatype=_DATATYPES[str(output.dtype)], shape=output.shape
            )
            response.raw_output_contents.append(output.tobytes())
        return response


async def serve(repository: Path) -> None:
    """Serve until the end of the process."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    handler = grpc.unary_unary_rpc_method_handler(
        Models(repository).infer,
        request_deserializer=pb.ModelInferRequest.FromString,
        response_serializer=pb.ModelInferResponse.SerializeToString,
    )
    service, method = METHOD.strip("/").split("/")
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"listening on {port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
