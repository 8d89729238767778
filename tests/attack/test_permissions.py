"""A client without a token cannot learn the names of models or take the server offline."""

import grpc
import pytest

from moorage_runtime.codec._generated import health_pb2
from support.runtime import serving

pytestmark = pytest.mark.attack

TOKEN = "secret-token"
SWITCH = ["/grps/v1/health/offline", "/grps/v1/health/online"]
LIST, CHECK = "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Check"
OFFLINE = "/grps.protos.v1.GrpsService/Offline"


@pytest.fixture(scope="module")
def guarded(repository, tmp_path_factory):
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN)
    with serving(repository, f"--token-file={file}") as runtime:
        yield runtime


def call(runtime, method, token=None):
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(runtime.grpc) as channel:
        return channel.unary_unary(method)(b"", timeout=10, metadata=metadata)


@pytest.mark.parametrize("path", SWITCH)
def test_without_tokens_clients_cannot_switch_the_server(server, path):
    assert server.get(path).status_code == 403
    assert server.get("/v2/health/ready").status_code == 200


@pytest.mark.parametrize("path", SWITCH)
def test_without_the_token_a_client_cannot_switch_a_protected_server(guarded, path):
    assert guarded.get(path).status_code == 401
    with pytest.raises(grpc.RpcError) as caught:
        call(guarded, OFFLINE)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert guarded.get("/v2/health/ready").status_code == 200


def test_with_the_token_a_client_switches_it(guarded):
    headers = {"Authorization": f"Bearer {TOKEN}"}

    assert guarded.post(SWITCH[0], headers=headers).status_code == 200
    assert guarded.get("/v2/health/ready").status_code == 503
    assert guarded.post(SWITCH[1], headers=headers).status_code == 200
    assert guarded.get("/v2/health/ready").status_code == 200


def test_the_list_of_models_needs_the_token_and_health_checks_do_not(guarded):
    with pytest.raises(grpc.RpcError) as caught:
        call(guarded, LIST)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert b"model:slow" in call(guarded, LIST, TOKEN)
    assert health_pb2.HealthCheckResponse.FromString(call(guarded, CHECK)).status == 1


@pytest.mark.parametrize(
    "path", ["/v2", "/v2/models/slow", "/v1/models/slow", "/metrics", "/", "/v2/models/none/infer"]
)
def test_no_other_path_names_a_model_without_the_token(guarded, path):
    answer = guarded.get(path)

    assert answer.status_code == 401
    assert "slow" not in answer.text
