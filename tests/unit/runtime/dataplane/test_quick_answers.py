"""Immediate responses: when a quick model gives one, and how a slow model answers."""

import asyncio
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from moorage_runtime.dataplane import Dataplane
from moorage_runtime.execution.runner import Runner
from moorage_runtime.repository.registry import Loaded
from moorage_runtime.values.errors import InvalidRequest, ModelFailed, QueueFull
from moorage_runtime.values.inference import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    ServerMetadata,
)
from moorage_runtime.values.tensors import Datatype, Tensor, TensorSpec

X = Tensor("x", Datatype.FP32, np.zeros(4, np.float32))
REQUEST = InferRequest("m", "", (X,))
SPEC = TensorSpec("x", Datatype.FP32, (4,))
METADATA = ModelMetadata("m", "1", ("1",), "test", (SPEC,), (SPEC,))


class Echo:
    """Returns its inputs; `go` delays it, the id "raise" makes it fail."""

    platform = "test"
    inputs = outputs = (SPEC,)
    dynamic = False
    streams = False

    def __init__(self, *, inline_rows: int) -> None:
        self.inline_rows = inline_rows
        self.go = threading.Event()
        self.go.set()
        self.closed = threading.Event()

    def infer(self, request):
        assert self.go.wait(10)
        if request.id == "raise":
            raise ModelFailed("as asked")
        return request.inputs

    def stream(self, request):
        yield self.infer(request)

    def close(self) -> None:
        self.closed.set()


@dataclass
class Registry:
    """One loaded model, without watchers."""

    entry: Loaded
    watchers: list = field(default_factory=list)

    def watch(self, callback) -> None:
        self.watchers.append(callback)

    def loaded(self, _name, _version):
        return self.entry


@dataclass
class Metrics:
    outcomes: list = field(default_factory=list)

    def record(self, model, version, outcome, seconds) -> None:
        assert seconds >= 0
        self.outcomes.append((model, version, outcome))


def make(model: Echo, **limits: int) -> tuple[Dataplane, Runner, Metrics]:
    runner = Runner(model, "m", threads=limits.get("threads", 1), waiting=limits.get("waiting", 8))
    metrics = Metrics()
    dataplane = Dataplane(
        Registry(Loaded(METADATA, runner)),
        None,
        server=ServerMetadata("test", "1", ()),
        metrics=metrics,
    )
    return dataplane, runner, metrics


@pytest.fixture
async def quick():
    """A dataplane with a model that is proven to be quick, and its metrics."""
    dataplane, _, metrics = make(Echo(inline_rows=4))
    return dataplane, metrics


async def test_a_quick_model_answers_at_once(quick):
    dataplane, metrics = quick

    answer = dataplane.begin(REQUEST)

    assert isinstance(answer, InferResponse)
    assert answer.outputs == (X,)
    assert metrics.outcomes == [("m", "1", "ok")]


async def test_an_error_of_a_quick_model_is_raised_and_counted_at_once(quick):
    dataplane, metrics = quick

    with pytest.raises(ModelFailed, match="as asked"):
        dataplane.begin(InferRequest("m", "", (X,), id="raise"))

    assert metrics.outcomes == [("m", "1", "ModelFailed")]


async def test_an_invalid_request_is_refused_at_once():
    dataplane, _, metrics = make(Echo(inline_rows=0))

    with pytest.raises(InvalidRequest, match="x"):
        dataplane.begin(InferRequest("m", "", ()))

    assert metrics.outcomes == [("m", "1", "InvalidRequest")]


@pytest.mark.parametrize(("request_id", "outcome"), [("", "ok"), ("raise", "ModelFailed")])
async def test_a_slow_model_is_counted_once_and_when_it_has_answered(request_id, outcome):
    model = Echo(inline_rows=0)
    dataplane, _, metrics = make(model)
    model.go.clear()
    begun = dataplane.begin(InferRequest("m", "", (X,), id=request_id))
    counted_before = list(metrics.outcomes)
    model.go.set()

    results = await asyncio.gather(begun, return_exceptions=True)

    assert counted_before == []
    assert metrics.outcomes == [("m", "1", outcome)]
    assert isinstance(results[0], InferResponse if outcome == "ok" else ModelFailed)


async def test_a_cancelled_request_is_counted_as_cancelled():
    model = Echo(inline_rows=0)
    dataplane, _, metrics = make(model)
    model.go.clear()
    task = asyncio.ensure_future(dataplane.begin(REQUEST))
    await asyncio.sleep(0)  # the task starts to wait

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    model.go.set()

    assert metrics.outcomes == [("m", "1", "Cancelled")]


async def test_a_model_may_be_closed_between_begin_and_await():
    model = Echo(inline_rows=0)
    dataplane, runner, _ = make(model)
    begun = dataplane.begin(REQUEST)

    runner.close()
    answer = await begun

    assert answer.outputs == (X,)
    assert await asyncio.to_thread(model.closed.wait, 10)


async def test_the_queue_is_full_before_anything_is_awaited():
    model = Echo(inline_rows=0)
    dataplane, _, metrics = make(model, threads=1, waiting=0)
    model.go.clear()
    first = dataplane.begin(REQUEST)

    with pytest.raises(QueueFull):
        dataplane.begin(REQUEST)

    model.go.set()
    await first
    assert metrics.outcomes == [("m", "1", "QueueFull"), ("m", "1", "ok")]
