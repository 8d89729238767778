"""The operator's queries and smoke tests with a real OpenAI-compatible server.

`make openai` builds the server (five CPU-minutes) and runs these tests; they are skipped where it
was not built.
"""

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage_operator.decide import plan as planning
from moorage_operator.probe.protocols.drivers import Drivers
from moorage_operator.probe.schedule.interrogation import as_spoken, interrogate
from moorage_operator.probe.schedule.smoke_runner import run_tests
from moorage_operator.values.answers import AnswerReason, ModelInfo, ProbeResult
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import SmokeOutcome
from support.environments import ROOT, environment
from support.operator_values import CONFIG, NOW, model, observed, planned, pod, verdict
from support.waiting import eventually

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).parent / "servers" / "openai_model.py"
START_SECONDS = 120
# This server has no /health.
PATHS = {"live": "/v1/models", "ready": "/v1/models"}
CHAT: dict[str, Any] = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Say something."}],
    "max_tokens": 4,
    "temperature": 0,
}


def python() -> Path:
    """Python of the server's environment, which takes minutes to build."""
    made = ROOT / "build" / "openai"
    if not os.environ.get("OPENAI_SERVER") and not (made / "requirements.txt").exists():
        pytest.skip("the server is not built: run make openai")
    return environment("openai")


def connects(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the server."""
    interpreter = python()
    folder = tmp_path_factory.mktemp("openai")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [interpreter, SCRIPT, str(port), folder], stdout=log, stderr=log
        )
    try:
        eventually(
            f"the server listens; its log is {folder / 'log'}",
            lambda: process.poll() is not None or connects(port),
            bool,
            START_SECONDS,
        )
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        yield port
    finally:
        process.kill()
        process.wait(30)


@pytest.fixture
async def drivers() -> AsyncIterator[Drivers]:
    made = Drivers()
    yield made
    await made.close()


def spec_of(port: int, **spec: Any) -> Any:
    """The model of a spec for the server."""
    runtime = {"image": "llama-cpp-python", "ports": {"http": port, "grpc": 1}}
    return model("tiny", **{"protocol": "OpenAI", "runtime": runtime, "paths": PATHS, **spec})


def target_of(of: Any) -> ProbeTarget:
    """The target that the operator's own plan makes."""
    assert of.problems == ()
    seen = observed(pod("p", of, ip="127.0.0.1"))
    (target,) = planning.plan(of, seen, now=NOW, config=CONFIG).targets
    return target


async def asked(drivers: Drivers, of: Any) -> ProbeResult:
    """The result of one poll."""
    results = [each async for each in interrogate(drivers, target_of(of), None, describe=True)]
    return results[-1]


async def outcome_of(drivers: Drivers, of: Any) -> SmokeOutcome:
    """The outcome of the model's smoke tests, as the poller runs them."""
    result = await asked(drivers, of)
    target = as_spoken(target_of(of), result.spoken)
    assert target
    assert target.smoke
    driver = drivers[target.way.protocol, target.way.transport]
    return await run_tests(driver, target, target.smoke, time.monotonic)


@pytest.mark.parametrize("protocol", ["OpenAI", "Auto"])
async def test_the_server_is_ready_with_its_model(drivers, port, protocol):
    of = spec_of(port, protocol=protocol)

    result = await asked(drivers, of)

    assert result.model_ready.verdict is True
    assert result.model == ModelInfo("tiny", platform="me")
    assert result.spoken
    assert (result.spoken.protocol, result.spoken.evidence) == (
        "OpenAI",
        "GET /v1/models answers with a list of models",
    )
    one = pod("p", of, ip="127.0.0.1", gated=True, gate_open=True)
    plan = planned(of, observed(one, probes={one.uid: result}))
    assert verdict(plan) == ("True", "Serving")
    assert plan.status["model"]["name"] == "tiny"
    assert plan.status["endpoints"][0]["url"].endswith(f":{port}/v1")


async def test_a_model_that_the_server_lacks_is_reported_with_its_list(drivers, port):
    answer = (await asked(drivers, spec_of(port, model={"name": "rose"}))).model_ready

    assert (answer.verdict, answer.reason) == (False, AnswerReason.MODEL_NOT_FOUND)
    assert answer.message == "the server lists tiny"


async def test_the_missing_health_endpoint_is_explained(drivers, port):
    answer = (await asked(drivers, spec_of(port, paths={}))).model_ready

    assert answer.verdict is False
    assert "HTTP 404 from /health" in answer.message


@pytest.mark.parametrize("protocol", ["OpenInference", "TensorFlowServing", "GRPS"])
async def test_a_wrong_protocol_is_reported_with_openai(drivers, port, protocol):
    result = await asked(drivers, spec_of(port, protocol=protocol, paths={}))

    assert result.model_ready.reason is AnswerReason.WRONG_PROTOCOL
    assert result.spoken
    assert result.spoken.protocol == "OpenAI"


@pytest.mark.parametrize("protocol", ["OpenAI", "Auto"])
async def test_expected_answers_pass(drivers, port, protocol):
    tests = [
        {
            "name": "chat",
            "request": {"path": "/v1/chat/completions", "body": CHAT},
            "expect": [
                {"jsonPath": "choices[0].message.content", "pattern": "^k{1,4}$"},
                {"jsonPath": "choices[0].message.role", "value": "assistant"},
                {"jsonPath": "usage.completion_tokens", "value": 4},
                {"jsonPath": "choices[1]", "exists": False},
            ],
            "maxLatencyMilliseconds": 60_000,
        },
        {
            "name": "completion",
            "request": {"path": "/v1/completions", "body": {"prompt": "a", "max_tokens": 1}},
            "expect": [{"jsonPath": "choices[0].text", "value": "k"}],
        },
        {
            "name": "list",
            "request": {"path": "/v1/models", "method": "GET"},
            "expect": [{"jsonPath": "data[0].id", "value": "tiny"}],
        },
    ]

    outcome = await outcome_of(
        drivers, spec_of(port, protocol=protocol, smokeTests={"tests": tests})
    )

    assert (outcome.verdict, outcome.message) == ("Passed", "")


FAILURES = [
    (
        {"request": {"body": CHAT}, "expect": [
            {"jsonPath": "choices[0].message.content", "pattern": "(?i)paris"}]},
        "OutputMismatch",
        ["choices[0].message.content", "(?i)paris", '"k'],
    ),
    (
        {"request": {"body": {"messages": "none"}}},
        "RequestRejected",
        ["from /v1/chat/completions", "valid list"],
    ),
    ({"request": {"path": "/v1/none", "body": {}}}, "RequestRejected", ["HTTP 404 from /v1/none"]),
    (
        {"request": {"path": "/docs", "method": "GET"},
         "expect": [{"jsonPath": "a", "exists": True}]},
        "RequestRejected",
        ["/docs", "not JSON"],
    ),
    (
        {"request": {"body": {**CHAT, "max_tokens": 100}}, "maxLatencyMilliseconds": 1},
        "LatencyExceeded",
        ["limit is 1 ms"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("test", "reason", "facts"), FAILURES)
async def test_other_answers_fail(drivers, port, test, reason, facts):
    of = spec_of(port, smokeTests={"tests": [{"name": "one", **test}]})

    outcome = await outcome_of(drivers, of)

    assert outcome.verdict == reason
    assert all(fact in outcome.message for fact in facts), outcome.message


async def test_the_same_server_without_a_protocol_claims_no_model(drivers, port):
    tests = [
        {
            "name": "chat",
            "request": {"path": "/v1/chat/completions", "body": CHAT},
            "expect": [{"jsonPath": "choices[0].message.content", "pattern": "^k+$"}],
        }
    ]
    of = spec_of(port, protocol="None", paths={"ready": "/docs"}, smokeTests={"tests": tests})

    result = await asked(drivers, of)
    outcome = await outcome_of(drivers, of)

    assert result.model_ready.verdict is True
    assert (result.model, result.server) == (None, None)
    assert outcome.verdict == "Passed"
