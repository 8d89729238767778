"""Every driver against every invalid server: no exception, no hang, no flood, no false success."""

import asyncio
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from moorage_operator.api.json_tests import Expectation, JsonRequest
from moorage_operator.api.smoke_tests import InputTensor, SmokeTest
from moorage_operator.decide import plan as planning
from moorage_operator.probe.protocols.drivers import Drivers
from moorage_operator.probe.schedule.interrogation import interrogate
from moorage_operator.values.answers import Answer, ProbeResult
from moorage_operator.values.json_answers import JsonAnswer, unmet
from moorage_operator.values.plan import ProbeTarget
from support.liars import LIAR, LIES, lying
from support.operator_values import CONFIG, NOW, model, observed, pod, running

pytestmark = pytest.mark.conformance

WAYS = [
    ("OpenInference", "HTTP"),
    ("OpenInference", "GRPC"),
    ("TensorFlowServing", "HTTP"),
    ("GRPS", "HTTP"),
    ("GRPS", "GRPC"),
    ("OpenAI", "HTTP"),
    ("Auto", "HTTP"),
]
REQUEST = SmokeTest(
    "one",
    request=JsonRequest(path="/v1/chat/completions", body={"messages": []}),
    expect=(Expectation("choices[0].message.content", pattern="^yes$"),),
)
INPUTS = (InputTensor("x", "FP32", (1,), (1.0,)),)
# Far above what a response may cost, far below what these servers would send.
MEMORY_LIMIT_KIB = 128 * 1024
# Each query has a timeout of a second; a poll consists of several queries.
POLL_DEADLINE_SECONDS = 10


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """A server for each kind of invalid response."""
    opened = {lie: lying(lie) for lie in LIES}
    try:
        yield {lie: each.__enter__() for lie, each in opened.items()}
    finally:
        for each in opened.values():
            each.__exit__(None, None, None)


@pytest.fixture
async def drivers() -> AsyncIterator[Drivers]:
    made = Drivers()
    yield made
    await made.close()


def target(port: int, protocol: str, transport: str) -> ProbeTarget:
    nobody = 1
    http, grpc = (nobody, port) if transport == "GRPC" else (port, nobody)
    of = model(
        "liar",
        protocol=protocol,
        transport=transport,
        health={"timeoutSeconds": 1},
        runtime={"image": "liar:1", "ports": {"http": http, "grpc": grpc}},
    )
    seen = observed(pod("p", of, ip="127.0.0.1", runtime=running()))
    (made,) = planning.plan(of, seen, now=NOW, config=CONFIG).targets
    return made


async def polled(drivers: Drivers, of: ProbeTarget) -> ProbeResult:
    """The last result of one poll."""
    async with asyncio.timeout(POLL_DEADLINE_SECONDS):
        results = [result async for result in interrogate(drivers, of, None, describe=True)]
    return results[-1]


@pytest.mark.parametrize(("protocol", "transport"), WAYS)
@pytest.mark.parametrize("lie", LIES)
async def test_an_invalid_server_is_never_ready(
    ports: dict[str, int], drivers: Drivers, lie: str, protocol: str, transport: str
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    result = await polled(drivers, target(ports[lie], protocol, transport))

    assert result.model_ready.verdict is not True
    assert result.model is None
    assert len(result.model_ready.message) < 1024
    assert result.model_ready.message.isprintable()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_LIMIT_KIB


@pytest.mark.parametrize(("protocol", "transport"), WAYS[:-1])
@pytest.mark.parametrize("lie", LIES)
async def test_an_invalid_response_never_passes_a_smoke_test(
    ports: dict[str, int], drivers: Drivers, lie: str, protocol: str, transport: str
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    driver = drivers[protocol, transport]

    async with asyncio.timeout(POLL_DEADLINE_SECONDS):
        answer = await driver.infer(target(ports[lie], protocol, transport), INPUTS)

    assert isinstance(answer, Answer)
    assert answer.message
    assert answer.message.isprintable()
    assert len(answer.message) < 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_LIMIT_KIB


@pytest.mark.parametrize("protocol", ["OpenAI", "None", "OpenInference", "GRPS"])
@pytest.mark.parametrize("lie", LIES)
async def test_an_invalid_response_never_meets_an_expectation(
    ports: dict[str, int], drivers: Drivers, lie: str, protocol: str
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async with asyncio.timeout(POLL_DEADLINE_SECONDS):
        answer = await drivers[protocol, "HTTP"].send(target(ports[lie], "Auto", "HTTP"), REQUEST)

    if isinstance(answer, JsonAnswer):
        message = unmet(REQUEST.expect, answer.document)
        assert "choices" in message
    else:
        message = answer.message
    assert message.isprintable()
    assert 0 < len(message) < 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_LIMIT_KIB


def test_the_tested_servers_are_all_those_of_the_program() -> None:
    command = [sys.executable, LIAR, "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    for lie in LIES:
        assert lie in told
    assert told.split("{")[1].split("}")[0].count(",") == len(LIES) - 1
