"""Execution providers of ONNX Runtime on a machine without a GPU: errors instead of a fallback."""

import onnxruntime as ort
import pytest

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx import providers
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.values.errors import InvalidConfig
from unit.runtime.model_files import write_onnx

without_cuda = pytest.mark.skipif(
    "CUDAExecutionProvider" in ort.get_available_providers(), reason="CUDA is installed"
)


def test_the_cpu_is_always_installed():
    providers.check_installed("cpu")

    assert providers.names("cpu") == ["CPUExecutionProvider"]


def test_the_cpu_runs_what_a_gpu_does_not_support():
    assert providers.names("cuda") == ["CUDAExecutionProvider", "CPUExecutionProvider"]


@without_cuda
def test_a_provider_that_is_not_installed_is_an_error_with_those_that_are():
    with pytest.raises(InvalidConfig) as caught:
        providers.check_installed("cuda")

    for words in ("--execution-provider=cuda", "CPUExecutionProvider", "onnxruntime-gpu"):
        assert words in caught.value.message


@without_cuda
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_session_that_fell_back_to_the_cpu_is_refused(tmp_path):
    write_onnx(tmp_path / "model.onnx")
    with pytest.raises(InvalidConfig, match="CUDAExecutionProvider cannot start"):
        OnnxBackend("cuda").load(ModelSource("m", "1", tmp_path / "model.onnx"))


def test_only_runs_on_the_cpu_are_bounded(tmp_path, monkeypatch):
    write_onnx(tmp_path / "model.onnx")
    path = tmp_path / "model.onnx"
    on_cpu = OnnxBackend().load(ModelSource("m", "1", path))
    # a session on the CPU stands in for one on a GPU
    monkeypatch.setattr(providers, "names", lambda _: ["CPUExecutionProvider"])
    monkeypatch.setattr(providers, "check_used", lambda *_: None)

    on_gpu = OnnxBackend("cuda").load(ModelSource("m", "1", path))

    assert on_cpu.inline_rows > 0
    assert on_gpu.inline_rows == 0
