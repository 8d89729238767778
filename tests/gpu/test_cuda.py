"""The runtime on a real NVIDIA GPU: `make gpu`, which needs the extra gpu of the runtime."""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from moorage_benchmarks import gpu_models
from onnx import TensorProto, helper, numpy_helper

from support.runtime import Runtime, running, serving
from support.waiting import eventually

# not skipped where CUDA is merely missing: `make gpu` must not pass then
pytestmark = pytest.mark.skipif(os.environ.get("GPU") != "1", reason="needs a GPU: make gpu")
CUDA = "--execution-provider=cuda"
HERE = Path(__file__).parent
MIB = 2**20
# What CUDA's libraries keep may vary by a few blocks.
SLACK_MIB = 64


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    gpu_models.write(folder)
    return folder


@pytest.fixture(scope="module")
def runtime(models) -> Iterator[Runtime]:
    with serving(models, CUDA) as started:
        yield started


def rows_of(graph: str, count: int) -> np.ndarray:
    draw = np.random.default_rng(count)
    return draw.standard_normal((count, *gpu_models.SHAPES[graph])).astype(np.float32)


def post(runtime: Runtime, model: str, x: np.ndarray) -> httpx.Response:
    tensor = {"name": "x", "datatype": "FP32", "shape": x.shape}
    head = json.dumps(
        {"inputs": [tensor | {"parameters": {"binary_data_size": x.nbytes}}]}
    ).encode()
    lengths = {"Inference-Header-Content-Length": str(len(head))}
    path = f"/v2/models/{model}/infer"
    return runtime.post(path, content=head + x.tobytes(), headers=lengths)


def ask(runtime: Runtime, model: str, x: np.ndarray) -> np.ndarray:
    answer = post(runtime, model, x)
    assert answer.status_code == 200, answer.text
    (output,) = answer.json()["outputs"]
    return np.array(output["data"]).reshape(output["shape"])


def on_cpu(model: Path, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error, relative to the largest value."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("graph", gpu_models.SHAPES)
def test_answers_are_as_exact_as_those_of_the_cpu(runtime, models, graph):
    x = rows_of(graph, 3)

    assert error(ask(runtime, graph, x), on_cpu(models / graph / "model.onnx", {"x": x})) < 1e-5


def test_tf32_is_less_exact_and_only_on_request(runtime, models):
    x = rows_of("convolutions", 3)
    expected = on_cpu(models / "convolutions" / "model.onnx", {"x": x})

    assert 1e-5 < error(ask(runtime, "convolutions-tf32", x), expected) < 1e-2


@pytest.mark.parametrize("graph", gpu_models.SHAPES)
def test_concurrent_answers_equal_single_ones(runtime, graph):
    rows = [rows_of(graph, 1) + number for number in range(24)]
    single = [ask(runtime, graph, x) for x in rows]

    with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
        together = list(pool.map(lambda x: ask(runtime, graph, x), rows))

    for found, expected in zip(together, single, strict=True):
        assert error(found, expected) < 1e-5


def test_the_log_says_why_convolutions_are_not_merged(runtime):
    assert "model 'convolutions' version '1' runs without batching: on a GPU" in runtime.log
    assert "model 'dense' version '1' runs without batching" not in runtime.log


def test_an_index_outside_of_its_table_is_refused(tmp_path):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "embedding",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.save(model, tmp_path / "model.onnx")

    def ids(*elements: int) -> httpx.Response:
        tensor = {"name": "ids", "datatype": "INT64", "shape": [len(elements)]}
        inputs = [{**tensor, "data": elements}]
        return runtime.post("/v2/models/model/infer", json={"inputs": inputs})

    with serving(tmp_path / "model.onnx", CUDA) as runtime:
        (output,) = ids(3, -4).json()["outputs"]
        refused = ids(0, 4)

    assert np.array(output["data"]).reshape(2, 3).tolist() == table[[3, -4]].tolist()
    assert refused.status_code == 400
    assert "input 'ids' has element 4: must be an index from -4 to 3" in refused.text


def write_positions(path: Path) -> None:
    """A graph that computes the positions of tokens from a mask, for at most 4 tokens."""
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    positions = [
        helper.make_node("CumSum", ["mask", "axis"], ["counts"]),
        helper.make_node("Sub", ["counts", "one"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["y"], name="positions"),
    ]
    constants = {"table": table, "axis": np.int64(1), "one": np.int64(1)}
    graph = helper.make_graph(
        positions,
        "positions",
        [helper.make_tensor_value_info("mask", TensorProto.INT64, ["n", "m"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m", 3])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.save(model, path)


def test_a_computed_index_outside_of_its_table_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    write_positions(path)

    def masks(*rows: list[int]) -> httpx.Response:
        tensor = {"name": "mask", "datatype": "INT64", "shape": [len(rows), len(rows[0])]}
        return runtime.post("/v2/models/model/infer", json={"inputs": [{**tensor, "data": rows}]})

    with serving(path, CUDA) as runtime:
        short = masks([1, 1, 1, 1], [0, 1, 0, 1])
        long = masks([1, 1, 1, 1, 1])
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            mixed = list(pool.map(masks, [[1, 1, 1, 1, 1], [0, 1, 1, 1, 1]] * 8))
        outputs = runtime.get("/v2/models/model").json()["outputs"]

    expected = on_cpu(path, {"mask": np.array([[1, 1, 1, 1], [0, 1, 0, 1]])})
    assert short.json()["outputs"][0]["data"] == expected.ravel().tolist()
    assert [each["name"] for each in outputs] == ["y"]
    assert long.status_code == 500
    assert "operator Gather 'positions' has element 4: must be an index from -4 to 3" in long.text
    assert [each.status_code for each in mixed] == [500, 200] * 8


def used_mib() -> int:
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_a_model_that_is_loaded_again_and_again_leaves_no_memory_behind(models, tmp_path):
    shutil.copytree(models / "dense", tmp_path / "dense")
    x = rows_of("dense", 1)
    with serving(tmp_path, CUDA, "--repository-control=true") as runtime:
        used: list[int] = []
        for _ in range(8):
            for act in ("unload", "load"):
                answer = runtime.post(f"/v2/repository/models/dense/{act}", json={})
                assert answer.status_code == 200, answer.text
            ask(runtime, "dense", x)
            used.append(used_mib())

    assert used[-1] <= used[1] + SLACK_MIB, used


HOLD = """
import sys
import numpy as np, onnxruntime as ort
ort.preload_dlls()
held, size = [], 64 << 30
while size >= 4 << 20:
    try:
        held.append(ort.OrtValue.ortvalue_from_shape_and_type([size], np.uint8, "cuda", 0))
    except Exception:
        size //= 2
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def full_memory() -> Iterator[None]:
    """Another process holds all of the GPU's memory that is free."""
    words = [sys.executable, "-c", HOLD]
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        # ONNX Runtime reports the allocations that fail on this stream as well
        assert any(line == "held\n" for line in holder.stdout)
        yield
    finally:
        holder.stdin.close()
        holder.stdout.close()
        holder.wait(30)


def test_too_little_memory_fails_what_needs_it_and_nothing_else(models, tmp_path):
    shutil.copytree(models / "convolutions", tmp_path / "convolutions")
    with serving(tmp_path, CUDA, "--poll-seconds=0.2") as runtime:
        x = rows_of("convolutions", 1)
        expected = ask(runtime, "convolutions", x)
        with full_memory():
            refused = post(runtime, "convolutions", np.repeat(x, 64, 0))
            still = ask(runtime, "convolutions", x)
            shutil.copytree(models / "dense", tmp_path / "dense")
            why = eventually(
                "the second model has failed",
                lambda: runtime.get("/v2/models/dense/ready").text,
                lambda text: "cannot be loaded" in text,
                60,
            )
        after = ask(runtime, "convolutions", np.repeat(x, 64, 0))
        log = runtime.log

    assert refused.status_code == 500
    assert "Failed to allocate memory" in refused.json()["error"]
    assert "free memory" in why
    assert "not a valid" not in why
    assert error(still, expected) < 1e-5
    assert error(after[:1], expected) < 1e-5
    assert "no longer answers" not in log


def why_not_loaded(repository: Path, model: str, said: str) -> str:
    """What a server says of a model that it cannot load, once that has these words."""
    with running(f"--model-repository={repository}", CUDA) as runtime:
        return eventually(
            "the load has failed",
            lambda: runtime.get(f"/v2/models/{model}/ready").text,
            lambda found: said in found,
            30,
        )


def test_a_scale_that_a_gpu_does_not_broadcast_is_refused(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("LayerNormalization", ["x", "scale"], ["y"])],
        "norm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
        [numpy_helper.from_array(np.float32([2]), "scale")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    (tmp_path / "norm").mkdir()
    onnx.save(model, tmp_path / "norm" / "model.onnx")

    why = why_not_loaded(tmp_path, "norm", "scale")

    assert "has a scale 'scale' of shape [1]" in why


def faulty(folder: Path, models: Path) -> Path:
    shutil.copytree(models / "dense", folder / "dense")
    (folder / "faulty").mkdir()
    shutil.copy(HERE / "faulty_model.py", folder / "faulty" / "model.py")
    return folder


def break_cuda(runtime: Runtime) -> None:
    tensor = {"name": "x", "datatype": "INT32", "shape": [1], "data": [1]}
    answer = runtime.post("/v2/models/faulty/infer", json={"inputs": [tensor]})
    (output,) = answer.json()["outputs"]
    # CUDA_ERROR_ILLEGAL_ADDRESS
    assert output["data"] == [700]


def test_a_server_that_lost_its_gpu_ends(models, tmp_path):
    x = rows_of("dense", 1)
    with serving(faulty(tmp_path, models), CUDA, "--drain-seconds=0") as runtime:
        ask(runtime, "dense", x)
        break_cuda(runtime)

        answer = post(runtime, "dense", x)
        status = runtime.process.wait(30)

        assert answer.status_code == 500
        assert re.search(r"CUDA failure 700: an illegal memory access", answer.text)
        assert "hostname" not in answer.text
        assert status == 1
        assert "the GPU no longer answers this process" in runtime.log


def test_a_worker_that_lost_its_gpu_is_replaced(models, tmp_path):
    x = rows_of("dense", 1)
    with serving(faulty(tmp_path, models), CUDA, "--drain-seconds=0", "--workers=2") as runtime:
        expected = ask(runtime, "dense", x)
        break_cuda(runtime)

        eventually(
            "the worker restarts",
            lambda: (post_or_none(runtime, x), runtime.log),
            lambda seen: "restarts in" in seen[1],
            60,
        )
        found = eventually(
            "every request is answered",
            lambda: [post_or_none(runtime, x) for _ in range(16)],
            lambda answers: all(each is not None and each.status_code == 200 for each in answers),
            60,
        )

        data = found[-1].json()["outputs"][0]["data"]
        assert error(np.array([data]), expected) < 1e-5


def post_or_none(runtime: Runtime, x: np.ndarray) -> httpx.Response | None:
    try:
        return post(runtime, "dense", x)
    except httpx.TransportError:
        return None


def test_a_model_is_not_loaded_without_a_gpu(models, tmp_path, monkeypatch):
    shutil.copytree(models / "dense", tmp_path / "dense")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    text = why_not_loaded(tmp_path, "dense", "cannot be loaded")

    assert "no CUDA-capable device" in text
    assert "hostname" not in text
