"""Until the repository has been read, no name is reported as unknown, in any protocol."""

import grpc
import pytest
from prometheus_client import CollectorRegistry

from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.codec._generated import health_pb2, oip_pb2
from moorage_runtime.dataplane import Dataplane
from moorage_runtime.dataplane.metrics import InferenceMetrics
from moorage_runtime.frontends.grpc import health as health_grpc
from moorage_runtime.frontends.grps.rest import GrpsRestFrontend
from moorage_runtime.frontends.http.message import HttpRequest
from moorage_runtime.frontends.oip import grpc as oip_grpc
from moorage_runtime.frontends.oip.rest import OipRestFrontend
from moorage_runtime.frontends.tfs.rest import TfsRestFrontend
from moorage_runtime.repository.loader import Loader, LoaderOptions
from moorage_runtime.repository.registry import Registry, Version
from moorage_runtime.values.errors import RepositoryUnread
from moorage_runtime.values.inference import ServerMetadata
from unit.runtime.grpc_fixtures import serving
from unit.runtime.model_files import write_onnx

HEADERS = {"content-type": "application/json"}
CHECK = "/grpc.health.v1.Health/Check"


class Server:
    """A server with a repository of models "a" and "b" that has not been read yet."""

    def __init__(self, root) -> None:
        for name in "ab":
            write_onnx(root / name / "1" / "model.onnx")
        self.prometheus = CollectorRegistry()
        metrics = InferenceMetrics(self.prometheus)
        self.registry = Registry()
        options = LoaderOptions(root, None)
        backends = {"onnx": OnnxBackend()}
        self.loader = Loader(options, self.registry, backends, metrics.loaded, metrics.ran)
        self.dataplane = Dataplane(
            self.registry, self.loader, server=ServerMetadata("s", "1", ()), metrics=metrics
        )
        oip, tfs = OipRestFrontend(self.dataplane), TfsRestFrontend(self.dataplane)
        grps = GrpsRestFrontend(self.dataplane)
        self.frontends = {"v2": oip, "v1": tfs, "grps": grps}

    async def ask(self, method, path, body=b""):
        frontend = self.frontends[path.split("/")[1]]
        answer = frontend.handle(HttpRequest(method, path, "", HEADERS, body))
        answer = answer if hasattr(answer, "status") else await answer
        return answer.status, bytes(answer.body)


@pytest.fixture
async def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.loader.close()


INFER = b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}'
QUESTIONS = [
    ("GET", "/v2/models/a/ready", b"", 503, 404),
    ("GET", "/v2/models/a/versions/1/ready", b"", 503, 404),
    ("GET", "/v2/models/a", b"", 503, 404),
    ("POST", "/v2/models/a/infer", INFER, 503, 404),
    ("GET", "/v1/models/a", b"", 503, 404),
    ("POST", "/v1/models/a:predict", b'{"instances": [1]}', 503, 404),
    ("GET", "/v1/models/a/metadata", b"", 404, 404),
    ("POST", "/grps/v1/infer/predict", b'{"str_data": "x", "model": "a"}', 503, 404),
    ("POST", "/grps/v1/infer/predict", b'{"str_data": "x"}', 503, 400),
    ("POST", "/grps/v1/metadata/model", b'{"str_data": "a"}', 503, 404),
]


@pytest.mark.parametrize(("method", "path", "body", "unread", "unknown"), QUESTIONS)
async def test_a_name_is_unknown_only_when_the_repository_has_been_read(
    server, method, path, body, unread, unknown
):
    status, text = await server.ask(method, path, body)
    assert status == unread
    assert b"has not read its model repository" in text or unread == 404

    await server.loader.refresh()
    other = path.replace("models/a", "models/z"), body.replace(b'"a"', b'"z"')
    assert (await server.ask(method, *other))[0] == unknown


async def test_grpc_clients_get_unavailable(server):
    services = [oip_grpc.service(server.dataplane), health_grpc.service(server.dataplane, [])]
    async with serving("native", *services) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary("/inference.GRPCInferenceService/ModelReady")(
                oip_pb2.ModelReadyRequest(name="a").SerializeToString()
            )
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

        check = health_pb2.HealthCheckRequest(service="model:a").SerializeToString()
        told = health_pb2.HealthCheckResponse.FromString(await channel.unary_unary(CHECK)(check))
        assert told.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_a_version_that_was_not_found_yet_is_not_unknown(server):
    model = server.registry.model("a")
    model.versions["1"] = Version("a", "1")
    server.registry.changed(model)

    assert server.dataplane.model_ready("a", "1").state == "LOADING"
    with pytest.raises(RepositoryUnread):
        server.dataplane.model_ready("a", "2")


async def test_the_first_model_found_is_not_the_default(server):
    server.registry.changed(server.registry.model("a"))
    assert server.dataplane.default_model() is None


async def test_an_unknown_model_is_not_unloaded(server):
    with pytest.raises(RepositoryUnread):
        await server.dataplane.unload("a")


async def test_names_chosen_by_clients_never_become_labels(server):
    await server.ask("POST", "/v2/models/a/infer", INFER)

    labels = {"model": "", "version": "", "outcome": "RepositoryUnread"}
    assert server.prometheus.get_sample_value("moorage_inferences_total", labels) == 1
