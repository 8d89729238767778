"""The operator's queries to a real KServe server, over both transports."""

import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from moorage_operator.decide import plan as planning
from moorage_operator.probe.protocols.drivers import Drivers
from moorage_operator.probe.schedule.interrogation import interrogate
from moorage_operator.values.answers import AnswerReason, ProbeResult
from support.environments import environment
from support.operator_values import CONFIG, NOW, model, observed, pod
from support.waiting import eventually

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).parent / "servers" / "kserve_model.py"
START_SECONDS = 60


@dataclass(frozen=True)
class KServe:
    """A running server; `load` makes its model ready."""

    http_port: int
    grpc_port: int
    told: Path

    def load(self) -> None:
        self.told.touch()


def connects(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def kserve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KServe]:
    python = environment("clients-kserve")
    folder = tmp_path_factory.mktemp("kserve")
    # the server does not support port 0, so two free ports are found in advance
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        ports = first.getsockname()[1], second.getsockname()[1]
    made = KServe(*ports, folder / "ready")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [python, SCRIPT, *map(str, ports), made.told], stdout=log, stderr=log
        )
    try:
        eventually(
            "KServe listens",
            lambda: process.poll() is None and all(map(connects, ports)),
            bool,
            START_SECONDS,
        )
        yield made
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
async def drivers() -> AsyncIterator[Drivers]:
    made = Drivers()
    yield made
    await made.close()


async def asked(
    drivers: Drivers, server: KServe, protocol: str, transport: str, name: str = "iris"
) -> ProbeResult:
    """The result of one poll of a target that the operator's own plan creates."""
    of = model(
        name,
        protocol=protocol,
        transport=transport,
        runtime={
            "image": "kserve",
            "ports": {"http": server.http_port, "grpc": server.grpc_port},
        },
    )
    seen = observed(pod("p", of, ip="127.0.0.1"))
    (target,) = planning.plan(of, seen, now=NOW, config=CONFIG).targets
    results = [result async for result in interrogate(drivers, target, None, describe=True)]
    return results[-1]


TRANSPORTS = pytest.mark.parametrize("transport", ["HTTP", "GRPC"])


@TRANSPORTS
async def test_a_loading_model_is_not_ready(kserve, drivers, transport):
    result = await asked(drivers, kserve, "OpenInference", transport)

    assert result.model_ready.verdict is False
    assert result.live.verdict is True
    assert result.spoken
    assert result.spoken.protocol == "OpenInference"


@TRANSPORTS
async def test_an_unknown_model_is_not_found(kserve, drivers, transport):
    result = await asked(drivers, kserve, "OpenInference", transport, name="rose")

    assert result.model_ready.reason is AnswerReason.MODEL_NOT_FOUND


@TRANSPORTS
@pytest.mark.parametrize("protocol", ["OpenInference", "Auto"])
async def test_a_loaded_model_is_ready(kserve, drivers, protocol, transport):
    kserve.load()
    while (await asked(drivers, kserve, protocol, transport)).model_ready.verdict is not True:
        pass  # each query takes milliseconds; the timeout of the test ends it

    result = await asked(drivers, kserve, protocol, transport)

    assert result.spoken
    assert (result.spoken.protocol, result.spoken.transport) == ("OpenInference", transport)
    assert result.server
    assert result.server.name == "kserve"
    assert result.model
    assert result.model.name == "iris"


@pytest.mark.parametrize(
    ("protocol", "transport"),
    [("TensorFlowServing", "HTTP"), ("GRPS", "HTTP"), ("GRPS", "GRPC")],
)
async def test_a_wrong_protocol_is_reported_with_the_detected_one(
    kserve, drivers, protocol, transport
):
    result = await asked(drivers, kserve, protocol, transport)

    assert result.model_ready.reason is AnswerReason.WRONG_PROTOCOL
    assert result.spoken
    assert (result.spoken.protocol, result.spoken.transport) == ("OpenInference", transport)
