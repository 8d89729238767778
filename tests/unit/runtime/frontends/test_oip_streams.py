"""Requests of one ModelStreamInfer stream: concurrency and order."""

import asyncio
from collections import defaultdict

import numpy as np
import pytest

from moorage_runtime.codec._generated import oip_pb2
from moorage_runtime.frontends.oip import grpc as oip_grpc
from moorage_runtime.frontends.oip.grpc import _STREAM_REQUESTS
from moorage_runtime.values.inference import InferResponse
from moorage_runtime.values.tensors import Datatype, Tensor

Y = Tensor("y", Datatype.FP32, np.zeros(1, np.float32))


class Plane:
    """Answers a request on a signal of the test; counts current requests."""

    def __init__(self) -> None:
        self.go = defaultdict(asyncio.Event)
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def infer_stream(self, request):
        name = f"{request.id or ''}{request.parameters.get('name', '')}"
        self.begun.append(name)
        try:
            await self.go[name].wait()
            if name == "breaks":
                raise ValueError("as asked")
            yield InferResponse("m", "1", (Y,), request.id)
        finally:
            self.ended.append(name)


def asked(request_id: str = "", **parameters) -> bytes:
    message = oip_pb2.ModelInferRequest(model_name="m", id=request_id)
    for key, value in parameters.items():
        if isinstance(value, int):
            message.parameters[key].int64_param = value
        else:
            message.parameters[key].string_param = value
    return message.SerializeToString()


def malformed(request_id: str = "") -> bytes:
    message = oip_pb2.ModelInferRequest(model_name="m", id=request_id)
    message.inputs.add(name="x", datatype="FP31")
    return message.SerializeToString()


def serve(plane: Plane, *requests: bytes):
    async def messages():
        for request in requests:
            yield request

    method = oip_grpc.service(plane).duplexes["ModelStreamInfer"]
    return method(messages())


def error_of(data: bytes) -> str:
    return oip_pb2.ModelStreamInferResponse.FromString(data).error_message


def id_of(data: bytes) -> str:
    return oip_pb2.ModelStreamInferResponse.FromString(data).infer_response.id


async def begun(plane: Plane, *names: str) -> None:
    async with asyncio.timeout(10):
        while plane.begun != list(names):  # noqa: ASYNC110 - the plane tells nobody
            await asyncio.sleep(0)


@pytest.fixture
def plane():
    return Plane()


async def test_requests_with_ids_run_concurrently_and_are_answered_as_they_end(plane):
    answers = serve(plane, asked("a"), asked("b"), asked("c"))
    plane.go["b"].set()

    assert id_of(await anext(answers)) == "b"
    assert plane.begun == ["a", "b", "c"]
    plane.go["c"].set()
    assert id_of(await anext(answers)) == "c"
    plane.go["a"].set()
    assert [id_of(answer) async for answer in answers] == ["a"]


@pytest.mark.parametrize("common", [{}, {"sequence_id": 7}])
async def test_requests_without_ids_and_those_of_a_sequence_keep_their_order(plane, common):
    ids = ("x", "y") if common else ("", "")
    requests = [asked(i, name=n, **common) for i, n in zip(ids, "12", strict=True)]
    names = [f"{i}{n}" for i, n in zip(ids, "12", strict=True)]
    answers = serve(plane, *requests, asked("free"))
    plane.go["free"].set()
    plane.go[names[1]].set()

    assert id_of(await anext(answers)) == "free"
    assert plane.begun == [names[0], "free"]
    plane.go[names[0]].set()
    assert [id_of(answer) async for answer in answers] == list(ids)
    assert plane.begun == [names[0], "free", names[1]]


async def test_the_error_of_a_malformed_request_has_its_id(plane):
    answers = serve(plane, asked("a"), malformed("b"))

    error = await anext(answers)

    assert id_of(error) == "b"
    assert "'FP31' is invalid" in error_of(error)
    await answers.aclose()


@pytest.mark.parametrize("bad", [malformed(), b"\xff", b""])
async def test_the_error_of_a_malformed_request_without_an_id_keeps_its_place(plane, bad):
    answers = serve(plane, asked(name="1"), bad, asked(name="2"), asked("free"))
    for name in ("free", "2"):
        plane.go[name].set()

    assert id_of(await anext(answers)) == "free"
    plane.go["1"].set()
    assert [bool(error_of(answer)) async for answer in answers] == [False, True, False]


async def test_malformed_requests_do_not_fill_the_stream(plane):
    bad = [malformed(str(n)) for n in range(_STREAM_REQUESTS + 1)]
    answers = serve(plane, *bad, asked("last"))
    plane.go["last"].set()

    ids = [id_of(answer) async for answer in answers]

    assert sorted(ids) == sorted([*map(str, range(_STREAM_REQUESTS + 1)), "last"])


async def test_further_requests_wait_to_be_read(plane):
    answers = serve(plane, *[asked(str(n)) for n in range(_STREAM_REQUESTS + 1)])
    first = asyncio.ensure_future(anext(answers))
    await begun(plane, *map(str, range(_STREAM_REQUESTS)))

    plane.go["0"].set()
    assert id_of(await first) == "0"
    await begun(plane, *map(str, range(_STREAM_REQUESTS + 1)))
    await answers.aclose()


async def test_a_client_that_leaves_ends_every_request_of_its_stream(plane):
    answers = serve(plane, asked("a"), asked("b"), asked("c"))
    plane.go["b"].set()
    await anext(answers)

    await answers.aclose()

    assert sorted(plane.ended) == ["a", "b", "c"]


async def test_an_unexpected_error_ends_the_stream_and_its_requests(plane):
    answers = serve(plane, asked("a"), asked("breaks"))
    plane.go["breaks"].set()

    with pytest.raises(ValueError, match="as asked"):
        await anext(answers)

    assert sorted(plane.ended) == ["a", "breaks"]
