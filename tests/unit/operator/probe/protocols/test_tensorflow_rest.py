import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.probe.protocols import tensorflow_metadata as tensorflow
from moorage_operator.probe.protocols.tensorflow_rest import TensorflowRest
from moorage_operator.probe.transport.http_client import HttpClient
from moorage_operator.values.answers import NOT_ASKED, AnswerReason, TensorInfo
from support.api_server import serving
from support.probe_targets import tensorflow_target

STATUS = "/v1/models/iris"
METADATA = "/v1/models/iris/metadata"

Routes = Mapping[str, tuple[int, str]]


async def asked(routes: Routes, ask: Callable[[TensorflowRest, Any], Any], **fields: Any) -> Any:
    """The driver's answer for a server with these paths, and 404 for others."""

    async def answer(request: web.Request) -> web.Response:
        code, body = routes.get(request.path, (404, ""))
        return web.Response(status=code, text=body)

    async with serving(answer) as server:
        http = HttpClient()
        try:
            return await ask(TensorflowRest(http), tensorflow_target(server, **fields))
        finally:
            await http.close()


def statuses(*entries: tuple[Any, str, str]) -> str:
    """A status body of (version, state, error)."""
    listed = [
        {
            "version": version,
            "state": state,
            "status": {"error_code": "INTERNAL" if error else "OK", "error_message": error},
        }
        for version, state, error in entries
    ]
    return json.dumps({"model_version_status": listed})


ANSWERS = [
    ("available", "", [("1", "AVAILABLE", "")], True, AnswerReason.READY, ""),
    ("an int64 as a number", "2", [(2, "AVAILABLE", "")], True, AnswerReason.READY, ""),
    ("loading, in a 200", "", [("1", "LOADING", "")], False, AnswerReason.LOADING, "LOADING"),
    ("starting", "", [("1", "START", "")], False, AnswerReason.LOADING, "START"),
    (
        "a load that failed",
        "",
        [("1", "END", "no such op")],
        False,
        AnswerReason.LOAD_FAILED,
        "no such op",
    ),
    ("unloaded", "", [("1", "END", "")], False, AnswerReason.NOT_READY, "END"),
    (
        "an older version serves while a newer loads",
        "",
        [("2", "LOADING", ""), ("1", "AVAILABLE", "")],
        True,
        AnswerReason.READY,
        "",
    ),
    (
        "the wanted version loads while another serves",
        "2",
        [("2", "LOADING", ""), ("1", "AVAILABLE", "")],
        False,
        AnswerReason.LOADING,
        "version 2",
    ),
    (
        "another version alone",
        "3",
        [("1", "AVAILABLE", ""), ("2", "END", "")],
        False,
        AnswerReason.VERSION_NOT_FOUND,
        "1, 2",
    ),
    ("no version at all", "", [], False, AnswerReason.MODEL_NOT_FOUND, "no version"),
]


@pytest.mark.parametrize(
    ("wanted", "entries", "verdict", "reason", "said"),
    [row[1:] for row in ANSWERS],
    ids=[row[0] for row in ANSWERS],
)
async def test_the_states_in_the_body_decide(
    wanted: str, entries: list[Any], verdict: bool, reason: AnswerReason, said: str
) -> None:
    answer = await asked(
        {STATUS: (200, statuses(*entries))}, lambda d, t: d.model_ready(t), model_version=wanted
    )

    assert (answer.verdict, answer.reason) == (verdict, reason)
    assert said in answer.message


REPLIES = [
    (404, '{"error":"Could not find any versions of model iris"}', AnswerReason.MODEL_NOT_FOUND),
    (
        404,
        '{"error":"Servable not found for request: Latest(iris)"}',
        AnswerReason.MODEL_NOT_FOUND,
    ),
    (404, '{"detail":"Not Found"}', AnswerReason.WRONG_PROTOCOL),
    (404, "", AnswerReason.WRONG_PROTOCOL),
    (200, "OK", AnswerReason.WRONG_PROTOCOL),
    (200, '{"name":"iris","ready":true}', AnswerReason.WRONG_PROTOCOL),
    (302, "", AnswerReason.WRONG_PROTOCOL),
    (401, '{"error":"token"}', AnswerReason.NOT_READY),
    (503, "", AnswerReason.NOT_READY),
]


@pytest.mark.parametrize(("code", "body", "reason"), REPLIES)
async def test_other_replies_are_judged_by_their_message(
    code: int, body: str, reason: AnswerReason
) -> None:
    answer = await asked({STATUS: (code, body)}, lambda d, t: d.model_ready(t))

    assert answer.reason is reason
    assert answer.verdict is (None if reason is AnswerReason.WRONG_PROTOCOL else False)


async def test_any_answer_means_live_and_server_readiness_is_not_queried() -> None:
    assert (await asked({}, lambda d, t: d.live(t))).verdict is True
    assert await asked({}, lambda d, t: d.ready(t)) is NOT_ASKED


@pytest.mark.parametrize(("code", "verdict"), [(200, True), (503, False), (404, False)])
async def test_custom_paths_are_judged_by_their_status(code: int, verdict: bool) -> None:
    routes = {"/p": (code, "")}

    for ask in (
        lambda d, t: d.live(t),
        lambda d, t: d.ready(t),
        lambda d, t: d.model_ready(t),
    ):
        answer = await asked(routes, ask, live_path="/p", ready_path="/p", model_ready_path="/p")
        assert answer.verdict is verdict


def signature(**fields: Any) -> dict[str, Any]:
    return {
        "inputs": {"x": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}]}}},
        "outputs": {"y": {"dtype": "DT_STRING", "tensor_shape": {}}},
        "method_name": "tensorflow/serving/predict",
        **fields,
    }


def body_of(signatures: dict[str, Any]) -> str:
    return json.dumps({"metadata": {"signature_def": {"signature_def": signatures}}})


async def test_the_default_signature_is_the_models_metadata() -> None:
    other = signature(inputs={})
    routes = {
        STATUS: (200, statuses(("2", "AVAILABLE", ""), ("1", "END", ""))),
        METADATA: (200, body_of({"a": other, "serving_default": signature()})),
    }

    described = await asked(routes, lambda d, t: d.describe(t))

    assert described.server is None
    assert described.model.name == "iris"
    assert described.model.versions == ("2",)
    assert described.model.inputs == (TensorInfo("x", "FP32", (-1,)),)
    assert described.model.outputs == (TensorInfo("y", "BYTES", ()),)
    assert described.evidence == (await asked(routes, lambda d, t: d.speaks(t))).message
    without_states = {**routes, STATUS: (200, "{}")}
    assert (await asked(without_states, lambda d, t: d.describe(t))).evidence == ""


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        ({"dtype": "DT_HALF", "tensor_shape": {"dim": [{"size": 3}, {}]}}, ("FP16", (3, 0))),
        ({"dtype": "DT_INT64", "tensor_shape": {"unknown_rank": True}}, ("INT64", None)),
        ({"dtype": "DT_COMPLEX64"}, ("DT_COMPLEX64", ())),
    ],
)
def test_a_tensor_is_mapped(tensor: dict[str, Any], expected: tuple[str, Any]) -> None:
    document = json.loads(body_of({"only": signature(inputs={"x": tensor})}))

    found = tensorflow.model_of(document, "iris", [])

    assert found is not None
    assert (found.inputs[0].datatype, found.inputs[0].shape) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(json_values, json_values)
def test_arbitrary_documents_never_raise(value: Any, tensor: Any) -> None:
    for document in (
        {"model_version_status": value},
        {"model_version_status": [value]},
        {"model_version_status": [{"version": value, "state": value, "status": value}]},
    ):
        found = tensorflow.version_statuses(document)
        assert found is None or all(isinstance(each.version, str) for each in found)
    document = json.loads(body_of({"only": {"inputs": {"x": tensor}, "outputs": value}}))
    tensorflow.model_of(document, "iris", [])
