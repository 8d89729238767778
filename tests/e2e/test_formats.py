"""Models of the runtime's extras, and OpenAI-compatible servers, on real pods: `make formats`.

The demo installs an image of the runtime with EXTRAS. The objects are those of the examples,
without the image that a reader would build. Each answer is compared with that of the model's own
library.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import onnxruntime
import openvino
import pytest
import skops.io
import xgboost
import yaml
from tokenizers import Tokenizer

from support.boosters import FLOWERS, SPECIES, WRITERS
from support.claims import models_claim
from support.environments import ROOT, environment
from support.images import build_and_load
from support.inference import ask, routed
from support.kubectl import KIND, Kubectl
from support.manifests import config_map, inference_model
from support.model_servers import llama_server
from support.waiting import eventually

pytestmark = [
    pytest.mark.e2e,
    # the first test builds the images
    pytest.mark.timeout(3600),
    pytest.mark.skipif("FORMATS" not in os.environ, reason="the images are large: make formats"),
]

EXAMPLES = ROOT / "examples"
MOORAGE = Path(sys.executable).parent / "moorage"
PEERS = ROOT / "tests" / "e2e" / "peers"
TINY_GGUF = ROOT / "tests" / "conformance" / "servers" / "tiny_gguf.py"
READY_SECONDS = 180

LANGUAGE_MODEL = "tiny-org/tiny-llama:1"
CHAT: dict[str, Any] = {
    "model": LANGUAGE_MODEL,
    "messages": [{"role": "user", "content": "Say something."}],
    "max_tokens": 4,
    "temperature": 0,
}
ARGUMENTS = [
    *("--model", "/mnt/models/tiny.gguf", "--model_alias", "$(MOORAGE_MODEL_NAME)"),
    *("--n_ctx", "256", "--host", "0.0.0.0", "--port", "8000"),
]
# Run in a pod: POST to the URL of the first argument with the body of the second.
CLIENT = """
import sys, urllib.request
url, body = sys.argv[1:]
headers = {"Content-Type": "application/json"}
with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)) as answer:
    print(answer.read().decode())
"""


def start(kubectl: Kubectl, example: str) -> str:
    """Serve the model of an example with the runtime of the demo, and return its name."""
    manifest = EXAMPLES / example / "inferencemodel.yaml"
    *files, model = yaml.safe_load_all(manifest.read_text())
    del model["spec"]["runtime"]["image"]
    kubectl.apply(*files, model)
    name = model["metadata"]["name"]
    kubectl.wait_condition(name, "Ready", "True", "Serving", READY_SECONDS)
    return name


def deploy(kubectl: Kubectl, file: Path, name: str) -> None:
    """Serve a file with the command `moorage deploy`."""
    done = subprocess.run(
        [MOORAGE, "deploy", file, f"--name={name}", "-n", kubectl.namespace],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **kubectl.env},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kubectl.wait_condition(name, "Ready", "True", "Serving", READY_SECONDS)


def request_of(example: str) -> dict[str, Any]:
    return json.loads((EXAMPLES / example / "request.json").read_text())


def infer(kubectl: Kubectl, name: str, request: dict[str, Any], *outputs: str) -> dict[str, Any]:
    """The outputs by name, each in its shape."""
    wanted = {"outputs": [{"name": each} for each in outputs]} if outputs else {}
    answer = ask(kubectl, name, {**request, **wanted})
    return {
        each["name"]: np.array(each["data"], object).reshape(each["shape"]).tolist()
        for each in answer["outputs"]
    }


def matrix_of(request: dict[str, Any]) -> np.ndarray:
    """The rows in the request's only tensor."""
    (tensor,) = request["inputs"]
    return np.array(tensor["data"], np.float64)


def flowers() -> dict[str, Any]:
    tensor = {"name": "input-0", "datatype": "FP64", "shape": [2, 4], "data": FLOWERS}
    return {"inputs": [tensor]}


def close(expected: Any) -> Any:
    """The numbers as far as 32 bits agree on them."""
    return pytest.approx(np.array(expected, float), rel=1e-5)


def platform(kubectl: Kubectl, name: str) -> str:
    """The format that the server reports of the model, as in the status."""
    return kubectl.get(KIND, name)["status"]["model"]["platform"]


def test_scikit_learn_answers_like_its_library(kubectl):
    file = EXAMPLES / "02-scikit-learn" / "model.skops"
    library = skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file))
    request = request_of("02-scikit-learn")
    rows = matrix_of(request)

    name = start(kubectl, "02-scikit-learn")
    answer = infer(kubectl, name, request, "predict", "predict_proba")

    assert platform(kubectl, name) == "sklearn_skops"
    assert answer["predict"] == library.predict(rows).tolist() == SPECIES
    assert np.array(answer["predict_proba"], float) == close(library.predict_proba(rows))


def test_xgboost_answers_like_its_library(kubectl):
    library = xgboost.Booster(model_file=EXAMPLES / "03-xgboost" / "model.ubj")
    request = request_of("03-xgboost")
    expected = library.predict(xgboost.DMatrix(matrix_of(request)))

    name = start(kubectl, "03-xgboost")
    answer = infer(kubectl, name, request)

    assert platform(kubectl, name) == "xgboost_ubj"
    assert np.array(answer["predict"], float) == close(expected)
    assert expected.argmax(axis=1).tolist() == [0, 1, 2]


def test_lightgbm_answers_like_its_library(kubectl, tmp_path):
    file = tmp_path / "model.txt"
    WRITERS["lightgbm"](file)
    expected = lightgbm.Booster(model_file=file).predict(np.array(FLOWERS))

    deploy(kubectl, file, "leaves")
    answer = infer(kubectl, "leaves", flowers())

    assert platform(kubectl, "leaves") == "lightgbm_text"
    assert np.array(answer["predict"], float) == close(expected)
    assert np.argmax(expected, axis=1).tolist() == [0, 2]


def test_catboost_answers_like_its_library(kubectl, tmp_path):
    file = tmp_path / "model.cbm"
    WRITERS["catboost"](file)
    library = catboost.CatBoostClassifier().load_model(str(file))

    deploy(kubectl, file, "cats")
    answer = infer(kubectl, "cats", flowers(), "predict", "predict_proba")

    assert platform(kubectl, "cats") == "catboost_cbm"
    assert answer["predict"] == library.predict(FLOWERS).ravel().tolist()
    assert answer["predict"] == [SPECIES[0], SPECIES[2]]
    assert np.array(answer["predict_proba"], float) == close(library.predict_proba(FLOWERS))


def test_a_tensorflow_saved_model_answers_like_openvino(kubectl, tmp_path):
    folder = EXAMPLES / "04-tensorflow-savedmodel" / "model"
    shutil.copytree(folder, tmp_path / "digits-tensorflow")
    request = request_of("04-tensorflow-savedmodel")
    # by default, OpenVINO computes with bfloat16 on some CPUs
    exact = {"EXECUTION_MODE_HINT": "ACCURACY"}
    library = openvino.Core().compile_model(folder / "1", "CPU", exact)
    results = library([np.array(request["instances"], np.float32)]).values()
    by_rank = {result.ndim: result.tolist() for result in results}

    with models_claim(kubectl, tmp_path):
        name = start(kubectl, "04-tensorflow-savedmodel")
        answer = ask(kubectl, name, request)

    # the protocol reports no format, but the signature
    (image,) = kubectl.get(KIND, name)["status"]["model"]["inputs"]
    assert image == {"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}
    (prediction,) = answer["predictions"]
    assert [prediction["label"]] == by_rank[1] == [3]
    assert np.array([prediction["probabilities"]]) == close(by_rank[2])


def test_a_text_encoder_answers_like_its_tokenizer_and_graph(kubectl):
    folder = EXAMPLES / "06-text-encoder" / "model"
    request = request_of("06-text-encoder")
    scores = np.array([scores_of(folder, text) for text in request["inputs"][0]["data"]])
    known = json.loads((folder / "config.json").read_text())["id2label"]
    best_first = np.argsort(-scores, axis=1)

    name = start(kubectl, "06-text-encoder")
    answer = infer(kubectl, name, request)

    assert answer["labels"] == [[known[str(index)] for index in row] for row in best_first]
    assert [row[0] for row in answer["labels"]] == ["positive", "negative"]
    assert np.array(answer["scores"], float) == close(np.take_along_axis(scores, best_first, 1))


def scores_of(folder: Path, text: str) -> np.ndarray:
    """The probability of each label of a text."""
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text)
    graph = onnxruntime.InferenceSession(folder / "model.onnx")
    feeds = {"input_ids": [tokens.ids], "attention_mask": [tokens.attention_mask]}
    (logits,) = graph.run(["logits"], feeds)[0]
    return np.exp(logits) / np.exp(logits).sum()


@pytest.fixture(scope="module")
def openai(demo, tmp_path_factory) -> str:
    """The image with llama.cpp's Python server, which is built from source once."""
    folder = tmp_path_factory.mktemp("openai")
    shutil.copytree(PEERS / "openai", folder, dirs_exist_ok=True)
    pip = [environment("openai"), "-m", "pip", "wheel", "--quiet", "--require-hashes"]
    requirements = ROOT / "requirements" / "openai.txt"
    subprocess.run([*pip, "-r", requirements, "-w", folder / "wheels"], check=True)
    return build_and_load("openai", folder / "Dockerfile", folder)


@pytest.fixture(scope="module")
def llama_cpp(demo, tmp_path_factory) -> str:
    """The image with llama.cpp's own server, which is built from source once."""
    folder = tmp_path_factory.mktemp("llama-cpp")
    shutil.copytree(PEERS / "llama-cpp", folder, dirs_exist_ok=True)
    (programs,) = llama_server()
    shutil.copy(programs / "llama-server", folder)
    return build_and_load("llama-cpp", folder / "Dockerfile", folder)


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> bytes:
    """A language model that answers k to everything."""
    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    subprocess.run([environment("openai"), TINY_GGUF, file], check=True)
    return file.read_bytes()


@pytest.fixture
def language_model(kubectl, gguf) -> None:
    """A ConfigMap `tiny` with a language model."""
    kubectl.apply(config_map("tiny", {"tiny.gguf": gguf}))


def in_openai(image: str, pattern: str, protocol: str = "OpenAI") -> dict[str, Any]:
    """The model, which has to answer a chat with the pattern before it gets requests."""
    expected = {"jsonPath": "choices[0].message.content", "pattern": pattern}
    question = {"name": "chat", "request": {"path": "/v1/chat/completions", "body": CHAT}}
    return inference_model(
        "tiny",
        protocol=protocol,
        model={"name": LANGUAGE_MODEL, "uri": "configmap://tiny"},
        runtime={"image": image, "args": ARGUMENTS},
        # this server has no /health
        paths={"live": "/v1/models", "ready": "/v1/models"},
        health={"periodSeconds": 1},
        smokeTests={"policy": "Enforce", "tests": [{**question, "expect": [expected]}]},
    )


def chat(kubectl: Kubectl, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the URL of the model's status answers to a client in a pod."""
    (endpoint,) = kubectl.get(KIND, name)["status"]["endpoints"]
    asking = ["python3", "-c", CLIENT, f"{endpoint['url']}/chat/completions", json.dumps(body)]
    return json.loads(kubectl.run("exec", f"deployment/{name}", "--", *asking))


def test_an_openai_compatible_server_serves_at_the_url_of_its_status(
    kubectl, openai, language_model
):
    kubectl.apply(in_openai(openai, "^k{4}$"))

    kubectl.wait_condition("tiny", "Ready", "True", "Serving", READY_SECONDS)

    status = kubectl.get(KIND, "tiny")["status"]
    assert status["protocol"]["detected"] == "OpenAI"
    assert status["model"]["name"] == LANGUAGE_MODEL
    assert kubectl.condition("tiny", "SmokeTestPassed")["reason"] == "Passed"
    url = f"http://tiny.{kubectl.namespace}.svc.cluster.local:8000/v1"
    assert [each["url"] for each in status["endpoints"]] == [url]
    answer = chat(kubectl, "tiny", CHAT)
    assert answer["model"] == LANGUAGE_MODEL
    assert answer["choices"][0]["message"] == {"content": "kkkk", "role": "assistant"}


def test_an_openai_compatible_server_is_detected(kubectl, openai, language_model):
    kubectl.apply(in_openai(openai, "^k{4}$", protocol="Auto"))

    kubectl.wait_condition("tiny", "Ready", "True", "Serving", READY_SECONDS)

    assert kubectl.row("tiny")["PROTOCOL"] == "OpenAI"


def test_the_example_of_llama_cpp_serves_with_a_tiny_model(kubectl, llama_cpp, gguf):
    model = yaml.safe_load((EXAMPLES / "09-openai" / "llama-cpp.yaml").read_text())
    model["spec"]["runtime"]["image"] = llama_cpp
    # under the name of the file that the example downloads
    file = model["spec"]["runtime"]["args"][1].removeprefix("/mnt/models/")
    model["spec"]["model"]["uri"] = "configmap://tiny"
    kubectl.apply(config_map("tiny", {file: gguf}), model)

    kubectl.wait_condition("smollm", "Ready", "True", "Serving", READY_SECONDS)

    status = kubectl.get(KIND, "smollm")["status"]
    assert status["protocol"]["detected"] == "OpenAI"
    assert status["model"]["contextLength"] == 256
    assert kubectl.condition("smollm", "SmokeTestPassed")["reason"] == "Passed"
    answer = chat(kubectl, "smollm", {**CHAT, "model": "smollm"})
    assert answer["choices"][0]["message"]["content"] == "kkkk"


def test_a_language_model_with_another_answer_gets_no_requests(kubectl, openai, language_model):
    kubectl.apply(in_openai(openai, "(?i)paris"))

    ready = kubectl.wait_condition("tiny", "Ready", "False", "OutputMismatch", READY_SECONDS)

    assert "choices[0].message.content" in ready["message"]
    assert '"kkkk"' in ready["message"]
    assert routed(kubectl, "tiny") == []

    kubectl.apply(in_openai(openai, "^k{4}$"))
    kubectl.wait_condition("tiny", "Ready", "True", "Serving", READY_SECONDS)
    eventually("the replica is routed", lambda: routed(kubectl, "tiny"), bool, 10)
