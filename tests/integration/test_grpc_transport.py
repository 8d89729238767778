"""A model that is polled over gRPC at its pod's address."""

from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest

from moorage_operator.probe.protocols._generated import oip_pb2
from moorage_operator.probe.protocols.oip_grpc import SERVICE
from support.operator_cluster import Api, Kubelet, OperatorProcess, eventually, model

pytestmark = pytest.mark.integration


class GrpcModel:
    """The answers of a gRPC model server, which a test can change."""

    def __init__(self) -> None:
        self.ready = False

    def model_ready(self, request, _):
        return oip_pb2.ModelReadyResponse(ready=self.ready and request.name == "iris")

    def methods(self) -> dict[str, grpc.RpcMethodHandler]:
        tensor = oip_pb2.ModelMetadataResponse.TensorMetadata(
            name="x", datatype="FP32", shape=[-1, 4]
        )
        metadata = oip_pb2.ModelMetadataResponse(name="iris", versions=["7"], inputs=[tensor])
        answers = {
            "ServerLive": lambda *_: oip_pb2.ServerLiveResponse(live=True),
            "ServerReady": lambda *_: oip_pb2.ServerReadyResponse(ready=True),
            "ModelReady": self.model_ready,
            "ServerMetadata": lambda *_: oip_pb2.ServerMetadataResponse(name="fake"),
            "ModelMetadata": lambda *_: metadata,
        }
        return {
            name: grpc.unary_unary_rpc_method_handler(
                answer,
                request_deserializer=getattr(oip_pb2, f"{name}Request").FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name, answer in answers.items()
        }


@pytest.fixture
def grpc_model() -> Iterator[tuple[GrpcModel, int]]:
    made = GrpcModel()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    handler = grpc.method_handlers_generic_handler(SERVICE, made.methods())
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield made, port
    server.stop(None).wait(10)


def test_readiness_and_metadata_are_queried_over_grpc(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, grpc_model: tuple[GrpcModel, int]
) -> None:
    answers, port = grpc_model
    runtime = {"image": "example/server:1", "ports": {"grpc": port}}
    api.apply(model("iris", runtime=runtime, transport="GRPC"))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)
    eventually("not ready", lambda: api.condition("iris", "ModelReady")[0] == "False")

    answers.ready = True
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))

    status = api.get("InferenceModel", "iris")["status"]
    assert status["model"]["versions"] == ["7"]
    assert status["server"]["name"] == "fake"
