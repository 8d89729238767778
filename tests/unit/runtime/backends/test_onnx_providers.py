"""Execution providers of ONNX Runtime on a machine without a GPU: errors instead of a fallback."""

import contextlib

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx import providers
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.onnx.device import Device
from moorage_runtime.backends.onnx.graph.file import read
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor
from support.absent_gpu import on_absent_gpu
from support.onnx_zoo import ZOO
from unit.runtime.model_files import write_onnx

without_cuda = pytest.mark.skipif(
    "CUDAExecutionProvider" in ort.get_available_providers(), reason="CUDA is installed"
)


def test_the_cpu_is_always_installed():
    providers.check_installed("cpu")

    assert [name for name, _ in providers.choice("cpu", tf32=False)] == ["CPUExecutionProvider"]


def test_the_cpu_runs_what_a_gpu_does_not_support():
    names = [name for name, _ in providers.choice("cuda", tf32=False)]

    assert names == ["CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize("tf32", [False, True])
def test_a_gpu_rounds_factors_only_on_demand(tf32):
    (_, options), (_, of_cpu) = providers.choice("cuda", tf32=tf32)

    assert options == {"use_tf32": str(int(tf32)), "cudnn_conv_algo_search": "HEURISTIC"}
    assert of_cpu == {}


def test_convolutions_are_not_merged_on_a_gpu(tmp_path):
    convolution = next(each for each in ZOO if each.name == "conv")
    dense = next(each for each in ZOO if each.name == "linear")
    for specimen in (convolution, dense):
        specimen.write(tmp_path / f"{specimen.name}.onnx")

    def obstacle(specimen):
        return providers.merge_obstacle(read(tmp_path / f"{specimen.name}.onnx"))

    assert "operator Conv " in obstacle(convolution)
    assert obstacle(dense) == ""


def write_norm(path, scale, **attributes):
    names = ["x", "computed" if scale is None else "scale"]
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["x"], ["computed"], keepdims=0),
            helper.make_node("LayerNormalization", ["x", "computed"], ["z"]),
            helper.make_node("LayerNormalization", names, ["y"], name="norm", **attributes),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [ValueInfoProto(name=name) for name in ("y", "z")],
        [] if scale is None else [numpy_helper.from_array(np.float32(scale), "scale")],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("scale", "attributes", "is_wrong"),
    [
        pytest.param(np.ones(3), {}, False, id="of each element"),
        pytest.param(np.ones((2, 3)), {"axis": -2}, False, id="of two dimensions"),
        pytest.param(np.ones(1), {}, True, id="one element"),
        pytest.param(np.ones(()), {}, True, id="a number"),
        pytest.param(np.ones((1, 1)), {"axis": 0}, True, id="one element of two dimensions"),
        pytest.param(np.ones(3), {"axis": -2}, True, id="one dimension of two"),
        pytest.param(np.ones(1), {"axis": [0]}, False, id="no axis"),
        pytest.param(None, {}, False, id="computed"),
        pytest.param(np.ones(1), {"domain": "own"}, False, id="of another domain"),
    ],
)
def test_scales_that_a_gpu_does_not_broadcast_are_found(scale, attributes, is_wrong, tmp_path):
    found = providers.wrong_operator(read(write_norm(tmp_path / "m.onnx", scale, **attributes)))

    assert found == (
        f"operator LayerNormalization 'norm' has a scale 'scale' of shape "
        f"{list(np.shape(scale))}, which ONNX Runtime does not broadcast on a GPU: expand it to "
        "the shape that is normalized"
        if is_wrong
        else ""
    )


def test_a_model_that_a_gpu_would_compute_wrongly_is_refused(tmp_path, instead_of_cuda):
    source = ModelSource("m", "1", write_norm(tmp_path / "m.onnx", np.ones(1)))

    OnnxBackend().load(source)
    with pytest.raises(InvalidConfig, match=r"m\.onnx: operator LayerNormalization 'norm' has a"):
        on_absent_gpu().load(source)


def test_a_provider_that_is_not_installed_is_an_error_with_those_that_are(monkeypatch):
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["First", "Second"])
    monkeypatch.setattr(ort, "preload_dlls", pytest.fail)

    with pytest.raises(InvalidConfig) as caught:
        providers.check_installed("cuda")

    assert caught.value.message == (
        "--execution-provider=cuda requires CUDAExecutionProvider, but ONNX Runtime "
        f"{ort.__version__} of this installation has only First, Second: use an image built with "
        "EXTRAS=gpu, or set it to cpu"
    )


def test_the_libraries_of_cuda_are_loaded_for_cuda_alone(monkeypatch):
    loads: list[int] = []
    installed = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(ort, "get_available_providers", lambda: installed)
    monkeypatch.setattr(ort, "preload_dlls", lambda: loads.append(1))

    providers.check_installed("cpu")
    assert loads == []

    providers.check_installed("cuda")
    assert loads == [1]


def test_a_session_that_does_not_use_the_provider_is_an_error_with_those_it_uses():
    class Session:
        def get_providers(self) -> list[str]:
            return ["First", "Second"]

    with pytest.raises(InvalidConfig) as caught:
        providers.check_used(Session(), "cuda")

    assert caught.value.message == (
        "--execution-provider=cuda: CUDAExecutionProvider cannot start, so ONNX Runtime would use "
        "First, Second: check that the container has a GPU, and CUDA and cuDNN of the versions "
        "that ONNX Runtime requires"
    )


@without_cuda
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_session_that_fell_back_to_the_cpu_is_refused(tmp_path):
    write_onnx(tmp_path / "model.onnx")
    with pytest.raises(InvalidConfig, match="CUDAExecutionProvider cannot start"):
        on_absent_gpu().load(ModelSource("m", "1", tmp_path / "model.onnx"))


def test_only_runs_on_the_cpu_are_bounded(tmp_path, instead_of_cuda):
    write_onnx(tmp_path / "model.onnx")
    path = tmp_path / "model.onnx"

    on_cpu = OnnxBackend().load(ModelSource("m", "1", path))
    on_gpu = on_absent_gpu().load(ModelSource("m", "1", path))

    assert on_cpu.inline_rows > 0
    assert on_gpu.inline_rows == 0


def test_the_gpu_is_checked_after_errors_alone(tmp_path, instead_of_cuda):
    checks: list[str] = []

    class Counted(Device):
        def begin(self) -> None:
            checks.append("begin")

        def check(self) -> None:
            checks.append("check")

    backend = OnnxBackend(Counted(lambda: None))
    write_onnx(tmp_path / "model.onnx", dims=("n", 3))
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    loaded = backend.load(ModelSource("m", "1", tmp_path / "model.onnx"))
    for columns in (3, 4):
        rows = Tensor("x", Datatype.FP32, np.zeros((1, columns), np.float32))
        with contextlib.suppress(ModelFailed):
            loaded.infer(InferRequest("m", "1", (rows,)))
    assert checks == ["begin", "check"]

    with pytest.raises(InvalidConfig):
        backend.load(ModelSource("m", "1", tmp_path / "broken.onnx"))
    assert checks == ["begin", "check", "begin", "check"]
