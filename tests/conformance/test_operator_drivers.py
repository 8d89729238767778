"""The operator's drivers against the bundled runtime: all protocols give the same results
(OP-041).
"""

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage_operator.decide import plan as planning
from moorage_operator.probe.protocols.drivers import Drivers
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import mismatch
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

DriverKey = tuple[str, str]


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


def planned_target(server: Runtime, way: DriverKey, name: str, version: str) -> ProbeTarget:
    """The target that the operator's own plan creates for a model at this server."""
    of = model(
        name.replace("_", "-"),
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
    way: DriverKey,
    name: str,
    version: str,
    reason: AnswerReason,
) -> None:
    driver = drivers[way]
    target = planned_target(server, way, name, version)

    answer = await driver.model_ready(target)

    assert answer.reason is reason, answer
    assert (await driver.live(target)).verdict is True


@BY_WAY
async def test_every_protocol_gives_the_same_tensors(
    server: Runtime, drivers: Drivers, way: DriverKey
) -> None:
    told: list[Any] = []
    for each in (("OpenInference", "HTTP"), way):
        target = planned_target(server, each, "iris", "")
        described = await drivers[each].describe(target)
        assert described.model
        assert described.model.versions == ("1",)
        tensors = (*described.model.inputs, *described.model.outputs)
        told.append([(tensor.datatype, tensor.shape) for tensor in tensors])

    assert told[0] == told[1]


@pytest.mark.parametrize("transport", ["HTTP", "GRPC"])
async def test_the_installation_of_packages_is_the_reason_of_a_model_that_is_not_ready(
    tmp_path: Path, drivers: Drivers, transport: str
) -> None:
    folder = tmp_path / "models" / "iris"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text("raise NotImplementedError")
    (folder / "model.yaml").write_text("python: {isolation: process, requirements: true}\n")
    (folder / "requirements.txt").write_text("absent==1 --hash=sha256:" + "0" * 64)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        runtime(
            f"--model-repository={folder.parent}",
            f"--python-packages={tmp_path / 'cache'}",
            f"--python-index=http://127.0.0.1:{silent.getsockname()[1]}/simple",
        ) as server,
    ):
        silent.settimeout(60)
        index, _ = silent.accept()  # pip waits for an answer
        target = planned_target(server, ("OpenInference", transport), "iris", "")
        driver = drivers["OpenInference", transport]

        answers = [await driver.model_ready(target) for _ in range(2)]

        index.close()
    assert answers[0] == answers[1]
    assert answers[0].verdict is False
    assert answers[0].reason in {AnswerReason.LOADING, AnswerReason.NOT_READY}
    assert "installing 1 package of requirements.txt" in answers[0].message


@BY_WAY
async def test_an_unknown_model_is_refused(drivers: Drivers, way: DriverKey) -> None:
    nobody = Runtime(process=None, log_file=Path(), http_port=1, grpc_port=2)  # type: ignore[arg-type]
    target = planned_target(nobody, way, "iris", "")

    answer = await drivers[way].model_ready(target)

    assert isinstance(answer, Answer)
    assert answer.reason is AnswerReason.REFUSED


def smoke_test(name: str, datatype: str, data: list[Any]) -> Any:
    """A smoke test of an identity model: the output equals the input."""
    return parse_one(
        {
            "name": name,
            "inputs": [{"name": "x", "datatype": datatype, "shape": [len(data)], "data": data}],
            "outputs": [{"name": "y", "data": data}],
        }
    )


def parse_one(test: dict[str, Any]) -> Any:
    of = model(smokeTests={"tests": [test]})
    assert of.problems == ()
    return of.smoke_tests.tests[0]


IRIS = parse_one(
    {
        "name": "cats",
        "inputs": [
            {"name": "image", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]},
            {"name": "caption", "datatype": "BYTES", "shape": [2], "data": ["ä", ""]},
        ],
        "outputs": [
            {"name": "classes", "data": [["cat", ""], ["cat", ""]]},
            {"name": "scores", "data": [0.25, 0.75, 0.25, 0.75]},
        ],
    }
)


SMOKE_TESTS = {
    "iris": IRIS,
    "identity_fp32": smoke_test("floats", "FP32", [0.1, -2.5, 3e38]),
    "identity_fp16": smoke_test("halves", "FP16", [0.5, 65504.0]),
    "identity_uint8": smoke_test("bytes", "UINT8", [0, 255]),
    "identity_bytes": smoke_test("texts", "BYTES", ["", "b"]),
}
# TensorFlow Serving's REST API has no JSON form for FP16; iris has no Predict signature.
NOT_BY_TENSORFLOW = {"identity_fp16", "iris"}


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (way, name)
        for way in WAYS
        for name in SMOKE_TESTS
        if way[0] != "TensorFlowServing" or name not in NOT_BY_TENSORFLOW
    ],
)
async def test_every_protocol_answers_a_smoke_test(
    server: Runtime, drivers: Drivers, way: DriverKey, name: str
) -> None:
    target, test = planned_target(server, way, name, ""), SMOKE_TESTS[name]

    answer = await drivers[way].infer(target, test.inputs)

    assert not isinstance(answer, Answer), answer
    assert mismatch(test, answer) == ""


@BY_WAY
async def test_every_protocol_reports_why_a_request_is_refused(
    server: Runtime, drivers: Drivers, way: DriverKey
) -> None:
    target = planned_target(server, way, "identity_fp32", "")
    texts = smoke_test("texts", "BYTES", ["a"])

    answer = await drivers[way].infer(target, texts.inputs)

    assert isinstance(answer, Answer)
    assert answer.verdict is False
    assert len(answer.message) > 20


async def test_tensorflow_serving_answers_a_batch_of_rows_by_name(
    server: Runtime, drivers: Drivers
) -> None:
    way = ("TensorFlowServing", "HTTP")
    tensors = [
        {"name": "tag", "datatype": "BYTES", "shape": [2, 1], "data": [["a"], ["b"]]},
        {"name": "signal", "datatype": "INT32", "shape": [2, 5], "data": list(range(10))},
        {"name": "sensor", "datatype": "INT32", "shape": [2, 2, 2], "data": list(range(8))},
    ]
    outputs = [{"name": each["name"], "data": each["data"]} for each in tensors]
    test = parse_one({"name": "rows", "inputs": tensors, "outputs": outputs})

    answer = await drivers[way].infer(planned_target(server, way, "multi", ""), test.inputs)

    assert not isinstance(answer, Answer), answer
    assert mismatch(test, answer) == ""
