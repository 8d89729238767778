"""OpenAI's API, with answers in the forms that servers document."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.probe.driver import Described
from moorage_operator.probe.protocols.openai_models import error_of, info_of, judged, listed_models
from moorage_operator.probe.protocols.openai_rest import OpenAiRest
from moorage_operator.probe.protocols.tensorflow_rest import TensorflowRest
from moorage_operator.probe.transport.credentials import Credentials
from moorage_operator.probe.transport.http_client import HttpClient
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo
from moorage_operator.values.plan import Access
from support.api_server import serving
from support.probe_targets import openai_target, target, tensorflow_target

HEALTH, MODELS = "/health", "/v1/models"

Routes = Mapping[str, tuple[int, str]]


async def asked(routes: Routes, ask: Callable[[OpenAiRest, Any], Any], **fields: Any) -> Any:
    """The driver's answer for a server with these paths, and 404 for others."""

    async def answer(request: web.Request) -> web.Response:
        code, body = routes.get(request.path, (404, '{"detail":"Not Found"}'))
        return web.Response(status=code, text=body)

    async with serving(answer) as server:
        http = HttpClient()
        try:
            return await ask(OpenAiRest(http), openai_target(server, **fields))
        finally:
            await http.close()


def models(*entries: Any, **fields: Any) -> str:
    return json.dumps({"object": "list", "data": list(entries), **fields})


# Forms of `GET /v1/models`, from the documentation of each server.
VLLM = {
    "id": "iris",
    "object": "model",
    "created": 1735142223,
    "owned_by": "vllm",
    "root": "/mnt/models",
    "parent": None,
    "max_model_len": 32768,
    "permission": [{"id": "modelperm-1", "object": "model_permission"}],
}
LLAMA_CPP = {
    "id": "iris",
    "object": "model",
    "created": 1735142223,
    "owned_by": "llamacpp",
    "meta": {"vocab_type": 2, "n_vocab": 128256, "n_ctx_train": 131072, "n_embd": 4096},
}
LLAMA_CPP_PYTHON = {"id": "iris", "object": "model", "owned_by": "me", "permissions": []}
OLLAMA = {"id": "iris", "object": "model", "created": 1735142223, "owned_by": "library"}
LM_STUDIO = {"id": "iris", "object": "model", "max_context_length": 8192}
LOADING = {**LLAMA_CPP, "meta": None}


def router(**status: Any) -> dict[str, Any]:
    """An entry of llama.cpp's router with the state of the model."""
    return {"id": "iris", "object": "model", "status": status}


FACTS = [
    (VLLM, ModelInfo("iris", platform="vllm", context_length=32768)),
    (LLAMA_CPP, ModelInfo("iris", platform="llamacpp", context_length=131072)),
    (LLAMA_CPP_PYTHON, ModelInfo("iris", platform="me")),
    (OLLAMA, ModelInfo("iris", platform="library")),
    (LM_STUDIO, ModelInfo("iris", context_length=8192)),
    (LOADING, ModelInfo("iris", platform="llamacpp")),
]


@pytest.mark.parametrize(("entry", "info"), FACTS, ids=["vllm", "llama.cpp", "llama-cpp-python",
                         "ollama", "lm-studio", "llama.cpp-loading"])  # fmt: skip
async def test_a_server_that_is_ready_and_lists_the_model_is_described(entry, info):
    routes = {HEALTH: (200, ""), MODELS: (200, models({"id": "other"}, entry))}

    assert (await asked(routes, lambda d, t: d.model_ready(t))).verdict is True
    evidence = "GET /v1/models answers with a list of models"
    found = Described(model=info, evidence=evidence)
    assert await asked(routes, lambda d, t: d.describe(t)) == found
    answer = await asked(routes, lambda d, t: d.speaks(t))
    assert (answer.verdict, answer.message) == (True, evidence)


STATES = [
    ({"value": "loaded"}, True, AnswerReason.READY, ""),
    ({"value": "sleeping"}, True, AnswerReason.READY, ""),
    ({"value": "loading"}, False, AnswerReason.LOADING, "loading"),
    ({"value": "downloading"}, False, AnswerReason.LOADING, "downloading"),
    ({"value": "unloaded"}, False, AnswerReason.NOT_READY, "unloaded"),
    (
        {"value": "unloaded", "failed": True, "exit_code": 1},
        False,
        AnswerReason.LOAD_FAILED,
        "failed",
    ),
    ({"value": "of a later version"}, False, AnswerReason.NOT_READY, "of a later version"),
]


@pytest.mark.parametrize(("status", "verdict", "reason", "state"), STATES)
async def test_the_state_of_a_listed_model_decides(status, verdict, reason, state):
    routes = {HEALTH: (200, ""), MODELS: (200, models(router(**status)))}

    answer = await asked(routes, lambda d, t: d.model_ready(t))

    assert (answer.verdict, answer.reason) == (verdict, reason)
    assert answer.message == (f"the server lists it as {state}" if state else "")


@pytest.mark.parametrize(
    ("count", "end"),
    [(1, "lists m0"), (10, "m8, m9"), (11, "m9 and 1 more"), (30, "m9 and 20 more")],
)
async def test_a_missing_model_is_reported_with_those_of_the_server(count, end):
    others = [{"id": f"m{number}"} for number in range(count)]
    routes = {HEALTH: (200, ""), MODELS: (200, models(*others))}

    answer = await asked(routes, lambda d, t: d.model_ready(t))

    assert (answer.verdict, answer.reason) == (False, AnswerReason.MODEL_NOT_FOUND)
    assert answer.listed
    assert answer.message.startswith("the server lists m0")
    assert answer.message.endswith(end)


@pytest.mark.parametrize("listed", [models(), '{"object":"list","data":null}'])
async def test_an_empty_list_is_reported(listed):
    answer = await asked({HEALTH: (200, ""), MODELS: (200, listed)}, lambda d, t: d.model_ready(t))

    assert (answer.reason, answer.listed) == (AnswerReason.MODEL_NOT_FOUND, False)
    assert answer.message == "the server lists no models"


LOADING_503 = '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'


@pytest.mark.parametrize("listed", [(200, models(LOADING)), (503, LOADING_503)])
async def test_a_server_that_loads_is_not_ready_whatever_it_lists(listed):
    routes = {HEALTH: (503, LOADING_503), MODELS: listed}

    answer = await asked(routes, lambda d, t: d.model_ready(t))

    assert (answer.verdict, answer.reason) == (False, AnswerReason.NOT_READY)
    assert answer.message == "Loading model"


async def test_a_server_without_a_health_path_is_explained():
    routes = {MODELS: (200, models(LLAMA_CPP_PYTHON))}

    answer = await asked(routes, lambda d, t: d.model_ready(t))
    own = await asked(routes, lambda d, t: d.model_ready(t), ready_path=MODELS)

    assert answer.verdict is False
    assert "404 from /health" in answer.message
    assert "paths.ready" in answer.message
    assert own.verdict is True


OTHER_SERVERS = [
    (404, '{"detail":"Not Found"}', AnswerReason.WRONG_PROTOCOL),
    (200, "<html>It works!</html>", AnswerReason.WRONG_PROTOCOL),
    (200, "", AnswerReason.WRONG_PROTOCOL),
    (200, '{"model_version_status":[]}', AnswerReason.WRONG_PROTOCOL),
    (200, '{"object":"list"}', AnswerReason.WRONG_PROTOCOL),
    (200, '{"data":[{"id":"iris"}]}', AnswerReason.WRONG_PROTOCOL),
    (200, '{"object":"list","data":{"id":"iris"}}', AnswerReason.WRONG_PROTOCOL),
    (200, '{"object":"list","data":["iris"]}', AnswerReason.WRONG_PROTOCOL),
    (200, '{"object":"list","data":[{"id":7}]}', AnswerReason.WRONG_PROTOCOL),
    (200, '[{"id":"iris"}]', AnswerReason.WRONG_PROTOCOL),
    (302, "", AnswerReason.WRONG_PROTOCOL),
    (401, '{"error":{"message":"no key"}}', AnswerReason.NOT_READY),
    (500, "", AnswerReason.NOT_READY),
]


@pytest.mark.parametrize(("code", "body", "reason"), OTHER_SERVERS)
async def test_another_answer_proves_no_protocol(code, body, reason):
    routes = {HEALTH: (200, ""), MODELS: (code, body)}

    ready = await asked(routes, lambda d, t: d.model_ready(t))
    spoken = await asked(routes, lambda d, t: d.speaks(t))

    assert ready.reason is spoken.reason is reason
    assert ready.verdict is not True
    assert await asked(routes, lambda d, t: d.describe(t)) == Described()


async def test_a_list_is_not_confused_with_tensorflow_serving():
    async def openai(request: web.Request) -> web.Response:
        if request.path == MODELS:
            return web.Response(text=models(VLLM))
        error = {"message": "The model `iris` does not exist.", "type": "NotFoundError"}
        return web.json_response({"error": error}, status=404)

    async def tensorflow(request: web.Request) -> web.Response:
        if request.path == f"{MODELS}/iris":
            return web.json_response({"model_version_status": []})
        return web.json_response({"error": "Malformed request"}, status=400)

    http = HttpClient()
    async with serving(openai) as server:
        assert (await OpenAiRest(http).speaks(openai_target(server))).verdict is True
        assert (await TensorflowRest(http).speaks(tensorflow_target(server))).verdict is None
    async with serving(tensorflow) as server:
        assert (await OpenAiRest(http).speaks(openai_target(server))).verdict is None
        assert (await TensorflowRest(http).speaks(tensorflow_target(server))).verdict is True
    await http.close()


async def test_tensors_are_refused():
    answer = await asked({}, lambda d, t: d.infer(t, (InputTensor("x", "FP32", (1,), (1.0,)),)))

    assert isinstance(answer, Answer)
    assert "no tensors" in answer.message


ERRORS = [
    ({"error": {"message": "m", "type": "t"}}, "m"),
    ({"error": "m"}, "m"),
    ({"object": "error", "message": "m"}, "m"),
    ({"detail": "m"}, "m"),
    ({"detail": [{"msg": "m"}]}, ""),
    ({"error": {"a": []}}, ""),
    ({"error": {"message": "a\n\x00b"}}, "a b"),
    ({}, ""),
]


@pytest.mark.parametrize(("document", "message"), ERRORS)
def test_the_message_of_an_error_is_found(document, message):
    assert error_of(document) == message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        ((1 << 40) - 1, (1 << 40) - 1),
        *((wrong, None) for wrong in (0, -1, 1.5, True, "4096", 1 << 40)),
    ],
)
def test_a_context_length_is_a_positive_number_of_tokens(value, expected):
    listed = listed_models(json.loads(models({"id": "iris", "max_model_len": value})))
    assert listed is not None

    found = info_of("iris", listed)

    assert found
    assert found.context_length == expected


def test_names_of_a_hostile_server_are_escaped_and_short():
    odd = "\u202e\x1b[31m" * 1000
    listed = listed_models(json.loads(models({"id": odd, "owned_by": odd})))
    assert listed is not None

    missing = judged(target(), listed)

    assert missing.message.isprintable()
    assert len(missing.message) <= 300
    assert info_of(odd, listed) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@given(json_values)
def test_arbitrary_documents_never_raise(value: Any) -> None:
    entry = {"id": "iris", **dict.fromkeys(("owned_by", "meta", "status", "max_model_len"), value)}
    for document in (
        {"object": value, "data": value},
        {"object": "list", "data": value},
        {"object": "list", "data": [value]},
        {"object": "list", "data": [entry]},
        {"object": "list", "data": [{**entry, "status": {"value": value, "failed": value}}]},
    ):
        found = listed_models(document)
        if found is not None:
            assert judged(target(), found).message.isprintable()
            info_of("iris", found)
    assert error_of({"error": value, "detail": value}).isprintable()


@pytest.mark.parametrize(
    ("token", "reason"), [("the-key", AnswerReason.READY), ("other", AnswerReason.UNAUTHORIZED)]
)
async def test_a_server_with_an_api_key_gets_it_from_the_secret(token, reason):
    async def answer(request: web.Request) -> web.Response:
        """Answer as vLLM does with VLLM_API_KEY."""
        if request.path == HEALTH:
            return web.Response()
        if request.headers.get("Authorization") != "Bearer the-key":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return web.Response(text=models(VLLM))

    async def read(namespace: str, name: str) -> Mapping[str, bytes]:
        assert (namespace, name) == ("team", "iris-tokens")
        return {"operator": token.encode()}

    access = Access("team", token_secret="iris-tokens")
    async with serving(answer) as server:
        http = HttpClient(Credentials(read))
        found = await OpenAiRest(http).model_ready(openai_target(server, access=access))
        await http.close()

    assert found.reason is reason
