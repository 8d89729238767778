"""Concurrent requests to a zoo of ONNX graphs: each response equals that of a single request.

`make gpu` runs this on a GPU as well.
"""

import concurrent.futures
import json
import os

import httpx
import numpy as np
import onnxruntime as ort
import pytest

from support.onnx_zoo import RANDOM, ZOO, Feeds, Specimen, close, rows
from support.runtime import Runtime, serving

pytestmark = pytest.mark.conformance

CLIENTS = 12
ALIKE, DIFFERENT = 3, 6
ON_GPU = os.environ.get("MOORAGE_EXECUTION_PROVIDER") == "cuda"
# ONNX Runtime has no kernel for the first; the server refuses the second.
WRONG_ON_GPU = {"batch norm training", "layer norm 0"} if ON_GPU else set()
COMPARED = [each for each in ZOO if each.name not in RANDOM | WRONG_ON_GPU]
DTYPES = {"FP32": np.float32, "INT64": np.int64}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("zoo")
    for specimen in ZOO:
        model = root / name_of(specimen)
        specimen.write(model / "model.onnx")
        # in threads, where requests wait for each other
        (model / "model.yaml").write_text("onnx: {inline: false, threads: 1}\n")
    return root


@pytest.fixture(scope="module")
def runtime(folder):
    with serving(folder, "--threads=1") as started:
        yield started


@pytest.fixture(scope="module")
def client(runtime):
    with (
        concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool,
        httpx.Client(base_url=f"http://{runtime.http}", timeout=30) as http,
    ):
        yield pool, http


def name_of(specimen: Specimen) -> str:
    return specimen.name.replace(" ", "_")


def ask(http: httpx.Client, specimen: Specimen, feeds: Feeds) -> np.ndarray | None:
    """The response; None if the model refuses the request."""
    inputs = [
        {"name": name, "datatype": "FP32", "shape": x.shape, "data": x.ravel().tolist()}
        for name, x in feeds.items()
    ]
    content = json.dumps({"inputs": inputs})
    answer = http.post(f"/v2/models/{name_of(specimen)}/infer", content=content)
    if answer.status_code != 200:
        return None
    (output,) = [each for each in answer.json()["outputs"] if each["name"] == "y"]
    return np.array(output["data"], DTYPES[output["datatype"]]).reshape(output["shape"])


@pytest.mark.parametrize("specimen", [pytest.param(each, id=each.name) for each in COMPARED])
def test_concurrent_answers_equal_single_ones(specimen, folder, client):
    pool, http = client
    session = ort.InferenceSession(
        folder / name_of(specimen) / "model.onnx", providers=["CPUExecutionProvider"]
    )
    # equal requests first, which would mislead a server that learns from its first traffic
    rounds = [[rows(specimen, 1, 0)] * CLIENTS] * ALIKE
    rounds += [
        [rows(specimen, 1 + number % 2, 1000 * turn + number) for number in range(CLIENTS)]
        for turn in range(1, DIFFERENT + 1)
    ]
    for requests in rounds:
        answers = pool.map(lambda feeds: ask(http, specimen, feeds), requests)
        for feeds, answer in zip(requests, answers, strict=True):
            try:
                expected = session.run(["y"], feeds)[0]
            except Exception:  # noqa: BLE001 - graphs with a fixed batch refuse other sizes
                assert answer is None
                continue
            assert answer is not None
            assert close(answer, expected)


def test_models_are_batched_or_the_log_explains_why_not(runtime: Runtime, client):
    text = runtime.log

    for specimen in ZOO:
        if specimen.name in WRONG_ON_GPU:
            continue
        says = f"model '{name_of(specimen)}' version '1' runs without batching: "
        assert (says in text) is not is_merged(specimen)


def is_merged(specimen: Specimen) -> bool:
    if ON_GPU and any("Conv" in node.op_type for node in specimen.nodes):
        return False
    return specimen.keeps_rows and specimen.name != "loop keeps"
