"""The operator's drivers against the bundled runtime with TLS and tokens, over every protocol."""

import ssl
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping

import httpx
import pytest

from moorage_operator.decide import plan as planning
from moorage_operator.probe.protocols.drivers import Drivers
from moorage_operator.probe.transport import credentials
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.secret_content import Unread
from support.certificates import Authority
from support.operator_values import CONFIG, NOW, model, observed, pod
from support.operator_values import running as running_container
from support.runtime import ROOT, Runtime, running
from support.secret_volumes import SecretVolumes
from support.waiting import eventually

pytestmark = pytest.mark.conformance

MODEL = ROOT / "examples" / "01-digits" / "model.onnx"
WAYS = [
    ("OpenInference", "HTTP"),
    ("OpenInference", "GRPC"),
    ("TensorFlowServing", "HTTP"),
    ("GRPS", "HTTP"),
    ("GRPS", "GRPC"),
]
BY_WAY = pytest.mark.parametrize("way", WAYS, ids=map("-".join, WAYS))
DriverKey = tuple[str, str]
SECURED = {"tls": {"secretName": "tls"}, "access": {"tokenSecretName": "tokens"}}
HOST = "digits.ns.svc"


class Secrets(SecretVolumes):
    """The same Secrets as the operator reads them."""

    async def read(self, namespace: str, name: str) -> Mapping[str, bytes] | Unread:
        assert namespace == "ns"
        if name not in self.data:
            return Unread("does not exist")
        return {key: value.encode() for key, value in self.data[name].items()}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    made = Secrets(tmp_path_factory.mktemp("volumes"))
    made.put("tls", Authority().issue(HOST).secret)
    made.put("tokens", {"operator": "token-of-the-operator", "shop": "token-of-the-shop"})
    made.sync("tls")
    made.sync("tokens")
    return made


@pytest.fixture(scope="module")
def server(secrets: Secrets) -> Iterator[Runtime]:
    options = [
        f"--model-repository={MODEL}",
        "--model-name=digits",
        f"--tls-certificate={secrets.folder}/tls/tls.crt",
        f"--tls-key={secrets.folder}/tls/tls.key",
        f"--token-file={secrets.folder}/tokens",
    ]
    with running(*options) as made:
        of = ssl.create_default_context()
        of.check_hostname, of.verify_mode = False, ssl.CERT_NONE
        url = f"https://{made.http}/v2/models/digits/ready"
        eventually(
            "ready", lambda: httpx.get(url, verify=of).status_code, lambda code: code == 200, 30
        )
        yield made


@pytest.fixture(scope="module")
def plain_server() -> Iterator[Runtime]:
    with running(f"--model-repository={MODEL}", "--model-name=digits") as made:
        yield made


@pytest.fixture
async def drivers(secrets: Secrets) -> AsyncIterator[Drivers]:
    made = Drivers(secrets.read)
    yield made
    await made.close()


def planned_target(
    server: Runtime, way: DriverKey, secured: Mapping[str, object] = SECURED
) -> ProbeTarget:
    """The target that the operator's own plan creates for the model at this server."""
    of = model(
        "digits",
        protocol=way[0],
        transport=way[1],
        runtime={"ports": {"http": server.http_port, "grpc": server.grpc_port}},
        **secured,
    )
    seen = observed(pod("p", of, ip="127.0.0.1", runtime=running_container()))
    (target,) = planning.plan(of, seen, now=NOW, config=CONFIG).targets
    return target


@BY_WAY
async def test_a_secured_runtime_answers_every_query(
    server: Runtime, drivers: Drivers, way: DriverKey
) -> None:
    target = planned_target(server, way)

    described = await drivers[way].describe(target)

    assert (await drivers[way].model_ready(target)).verdict is True
    assert (await drivers[way].live(target)).verdict is True
    assert (await drivers[way].speaks(target)).verdict is True
    assert described.model
    assert described.unauthorized == ""


@BY_WAY
async def test_without_the_token_secret_the_metadata_is_refused_with_the_reason(
    server: Runtime, way: DriverKey, secrets: Secrets
) -> None:
    async def read(namespace: str, name: str) -> Mapping[str, bytes] | Unread:
        if name == "tokens":
            return Unread("may not be read by the operator", "system:serviceaccount:moorage:op")
        return await secrets.read(namespace, name)

    made = Drivers(read)
    target = planned_target(server, way)
    try:
        ready = await made[way].model_ready(target)
        described = await made[way].describe(target)
    finally:
        await made.close()

    assert described.model is None
    assert "Secret tokens may not be read by the operator" in described.unauthorized
    if way[0] == "OpenInference":
        assert ready.verdict is True
    else:
        assert (ready.verdict, ready.reason) == (False, AnswerReason.UNAUTHORIZED)


@BY_WAY
async def test_another_ca_is_not_trusted(server: Runtime, way: DriverKey) -> None:
    async def read(namespace: str, name: str) -> Mapping[str, bytes] | Unread:
        del namespace, name
        return {"ca.crt": Authority("another CA").certificate.encode()}

    made = Drivers(read)
    try:
        answer = await made[way].model_ready(planned_target(server, way))
    finally:
        await made.close()

    assert (answer.verdict, answer.reason) == (None, AnswerReason.NOT_TRUSTED)
    assert "is not among ca.crt of Secret tls" in answer.message


@BY_WAY
async def test_a_certificate_for_another_name_is_not_trusted(
    server: Runtime, drivers: Drivers, way: DriverKey
) -> None:
    tls = {"secretName": "tls", "serverName": "iris.example.com"}

    answer = await drivers[way].model_ready(planned_target(server, way, {"tls": tls}))

    assert answer.reason is AnswerReason.NOT_TRUSTED
    assert "is not for iris.example.com" in answer.message


@BY_WAY
async def test_tls_on_the_server_alone_is_reported(
    server: Runtime, drivers: Drivers, way: DriverKey
) -> None:
    answer = await drivers[way].model_ready(planned_target(server, way, {}))

    assert (answer.verdict, answer.reason) == (None, AnswerReason.TLS_MISMATCH)
    assert "speaks TLS, but spec.tls is not set" in answer.message


@BY_WAY
async def test_tls_in_the_spec_alone_is_reported(
    plain_server: Runtime, drivers: Drivers, way: DriverKey
) -> None:
    answer = await drivers[way].model_ready(planned_target(plain_server, way))

    assert (answer.verdict, answer.reason) == (None, AnswerReason.TLS_MISMATCH)
    assert "answers in plaintext" in answer.message


@BY_WAY
async def test_rotated_secrets_are_used_before_and_after_the_server_reloads_them(
    server: Runtime,
    drivers: Drivers,
    way: DriverKey,
    secrets: Secrets,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(credentials, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(credentials, "FRESH_SECONDS", 0.0)
    target = planned_target(server, way)
    assert (await drivers[way].model_ready(target)).verdict is True
    former = secrets.data["tls"]["ca.crt"]

    secrets.put("tls", Authority("new CA").issue(HOST).secret)
    secrets.put("tokens", {"operator": f"renewed-{uuid.uuid4()}"})
    for _ in range(3):
        assert (await drivers[way].model_ready(target)).verdict is True
        assert (await drivers[way].describe(target)).model
    secrets.sync("tls")
    secrets.sync("tokens")
    reloads = server.log.count("reloaded the changed")
    eventually(
        "the runtime has reloaded both",
        lambda: server.log.count("reloaded the changed"),
        lambda count: count >= reloads + 2,
        30,
    )

    assert former != secrets.data["tls"]["ca.crt"]
    assert (await drivers[way].model_ready(target)).verdict is True
    assert (await drivers[way].describe(target)).model
