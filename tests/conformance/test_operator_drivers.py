"""The operator's drivers against the bundled runtime: every protocol tells the same (OP-041)."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage_operator import plan as planning
from moorage_operator.probe.drivers import Drivers
from moorage_operator.state import Answer, AnswerReason, ProbeTarget
from support.operator_values import CONFIG, NOW, model, observed, pod, running
from support.runtime import Runtime
from support.runtime import running as runtime
from support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "build" / "fixtures"

pytestmark = pytest.mark.conformance

WAYS = [
    ("OpenInference", "HTTP"),
    ("OpenInference", "GRPC"),
    ("TensorFlowServing", "HTTP"),
    ("GRPS", "HTTP"),
    ("GRPS", "GRPC"),
]
BY_WAY = pytest.mark.parametrize("way", WAYS, ids=map("-".join, WAYS))

Way = tuple[str, str]


@pytest.fixture(scope="module")
def server() -> Iterator[Runtime]:
    with runtime(f"--model-repository={FIXTURES}") as made:
        eventually(
            "ready", lambda: made.get("/v2/health/ready").status_code, {200}.__contains__, 60
        )
        yield made


@pytest.fixture
async def drivers() -> AsyncIterator[Drivers]:
    made = Drivers()
    yield made
    await made.close()


def planned_target(server: Runtime, way: Way, name: str, version: str) -> ProbeTarget:
    """The target as the operator's own plan makes it for a model at this server."""
    of = model(
        name,
        protocol=way[0],
        transport=way[1],
        model={"name": name, **({"version": version} if version else {})},
        runtime={"ports": {"http": server.http_port, "grpc": server.grpc_port}},
    )
    seen = observed(pod("p", of, ip="127.0.0.1", runtime=running()))
    (target,) = planning.plan(of, seen, now=NOW, config=CONFIG).targets
    return target


@BY_WAY
@pytest.mark.parametrize(
    ("name", "version", "reason"),
    [
        ("iris", "", AnswerReason.READY),
        ("iris", "1", AnswerReason.READY),
        ("iris", "99", AnswerReason.VERSION_NOT_FOUND),
        ("no-such-model", "", AnswerReason.MODEL_NOT_FOUND),
    ],
)
async def test_every_protocol_gives_the_same_verdict(
    server: Runtime,
    drivers: Drivers,
    way: Way,
    name: str,
    version: str,
    reason: AnswerReason,
) -> None:
    driver = drivers.by_way[way]
    target = planned_target(server, way, name, version)

    answer = await driver.model_ready(target)

    assert answer.reason is reason, answer
    assert (await driver.live(target)).verdict is True


@BY_WAY
async def test_every_protocol_gives_the_same_tensors(
    server: Runtime, drivers: Drivers, way: Way
) -> None:
    told: list[Any] = []
    for each in (("OpenInference", "HTTP"), way):
        target = planned_target(server, each, "iris", "")
        described = await drivers.by_way[each].describe(target)
        assert described.model
        assert described.model.versions == ("1",)
        tensors = (*described.model.inputs, *described.model.outputs)
        told.append([(tensor.datatype, tensor.shape) for tensor in tensors])

    assert told[0] == told[1]


@BY_WAY
async def test_what_is_not_there_refuses(drivers: Drivers, way: Way) -> None:
    nobody = Runtime(process=None, log_file=Path(), http_port=1, grpc_port=2)  # type: ignore[arg-type]
    target = planned_target(nobody, way, "iris", "")

    answer = await drivers.by_way[way].model_ready(target)

    assert isinstance(answer, Answer)
    assert answer.reason is AnswerReason.REFUSED
