"""What clients read of ONNX Runtime's messages; these are as versions 1.23 to 1.31 raise them."""

import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx import error_text
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.onnx.device import Device
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor

SOURCE = "/onnxruntime_src/onnxruntime/core"
RUNNING = "Non-zero status code returned while running {} node. Name:'' Status Message: "
CUDA_CALL = (
    f"{SOURCE}/providers/cuda/cuda_call.cc:154 std::conditional_t<THRW, void, "
    "onnxruntime::common::Status> onnxruntime::CudaCall(ERRTYPE, const char*, const char*, "
    "SUCCTYPE, const char*, const char*, int) [with ERRTYPE = cudaError; bool THRW = true; "
    "SUCCTYPE = cudaError; std::conditional_t<THRW, void, common::Status> = void] "
)
ALLOCATION = (
    f"{SOURCE}/framework/bfc_arena.cc:360 void* onnxruntime::BFCArena::AllocateRawInternal("
    "size_t, bool, onnxruntime::Stream*) Failed to allocate memory for requested buffer of size "
)


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        pytest.param(
            f"[ONNXRuntimeError] : 1 : FAIL : {RUNNING.format('Reshape')}{SOURCE}/providers/cpu/"
            "tensor/reshape_helper.h:91 onnxruntime::ReshapeHelper::ReshapeHelper(const "
            "onnxruntime::TensorShape&, onnxruntime::TensorShapeVector&, bool) input_shape_size "
            "== requested_shape_size was false. The input tensor cannot be reshaped to the "
            "requested shape. Input shape:{2,3}, requested shape:{4,2}\n",
            f"{RUNNING.format('Reshape')}The input tensor cannot be reshaped to the requested "
            "shape. Input shape:{2,3}, requested shape:{4,2}",
            id="a condition",
        ),
        pytest.param(
            f"[ONNXRuntimeError] : 1 : FAIL : {RUNNING.format('GatherElements')}{SOURCE}/"
            "providers/cpu/tensor/gather_elements.cc:150 void onnxruntime::core_impl(const "
            "Tensor*, const Tensor*, Tensor*, int64_t, concurrency::ThreadPool*) [with Tin = long "
            "int; int64_t = long int] GatherElements op: Out of range value in index tensor\n",
            f"{RUNNING.format('GatherElements')}GatherElements op: Out of range value in index "
            "tensor",
            id="a template",
        ),
        pytest.param(
            f"{SOURCE}/x.cc:7 onnxruntime::F(long int) const::<lambda(ptrdiff_t, ptrdiff_t)> it "
            "(the rest) is wrong",
            "it (the rest) is wrong",
            id="a lambda",
        ),
        pytest.param(
            f"{SOURCE}/x.cc:7 onnxruntime::G::operator()(int) const n > 0 was false. ",
            "n > 0 was false.",
            id="a condition that nothing explains",
        ),
        pytest.param(
            f"[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: {CUDA_CALL}"
            f"{CUDA_CALL}CUDA failure 710: device-side assert triggered ; GPU=0 ; hostname=vm ; "
            "file=/a.cc ; line=155 ; expr=cudaMemcpy(dst, src, count); \n\n",
            "Exception during initialization: CUDA failure 710: device-side assert triggered",
            id="a GPU that failed",
        ),
        pytest.param(
            f"[ONNXRuntimeError] : 1 : FAIL : {RUNNING.format('Conv')}{ALLOCATION}3288334336\n",
            f"{RUNNING.format('Conv')}Failed to allocate memory for requested buffer of size "
            "3288334336",
            id="too little memory",
        ),
        pytest.param(
            "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Load model from /models/m/1/model.onnx "
            "failed:Protobuf parsing failed.",
            "Load model from model.onnx failed:Protobuf parsing failed.",
            id="a file",
        ),
        pytest.param(
            f"{SOURCE}/x.cc:7 onnxruntime::X::X(std::function<void(int)>, float) [with T = "
            "std::array<int, [2]>] it is wrong",
            "it is wrong",
            id="a signature in a signature",
        ),
        pytest.param(
            "[ONNXRuntimeError] : 1 : FAIL : first : second : third",
            "first : second : third",
            id="colons",
        ),
        pytest.param(
            "first : second : third : fourth",
            "first : second : third : fourth",
            id="colons without codes",
        ),
        pytest.param(
            "[ONNXRuntimeError] : 1 : FAIL", "[ONNXRuntimeError] : 1 : FAIL", id="codes alone"
        ),
        pytest.param(
            "cannot read /models/m/1/weights.bin", "cannot read /weights.bin", id="another file"
        ),
        pytest.param("first\nsecond", "first", id="lines"),
        pytest.param(
            "a was false. Node: b was false. c", "Node: b was false. c", id="two conditions"
        ),
        pytest.param(f"{SOURCE}/x.cc:7 onnxruntime::F(int)", "RuntimeError", id="no message"),
        pytest.param("", "RuntimeError", id="nothing"),
        pytest.param("x was false. ", "x was false.", id="a sentence like a condition"),
    ],
)
def test_a_message_has_neither_source_positions_nor_facts_of_the_machine(raised, shown):
    assert error_text.text_of(RuntimeError(raised), Path("/models/m/1/model.onnx")) == shown


@pytest.mark.parametrize("part", ["/", "/onnxruntime/", ": ", " was false. ", "(", " : "])
def test_a_message_with_elements_of_a_request_takes_little_time(part):
    error = RuntimeError("[ONNXRuntimeError] : 1 : FAIL : " + part * 1_000_000)

    started = time.process_time()
    text = error_text.text_of(error)

    assert time.process_time() - started < 1
    assert len(text) < 5000


@pytest.mark.parametrize(
    ("text", "is_it"),
    [
        ("CUDA failure 2: out of memory", True),
        ("CUDNN failure 4000: CUDNN_STATUS_INTERNAL_ERROR", True),
        ("CUBLAS failure 3: the resource allocation failed", True),
        ("Failed to allocate memory for requested buffer of size 1", True),
        ("std::bad_alloc", True),
        ("Protobuf parsing failed.", False),
        ("No Op registered for Cuda with domain_version of 18", False),
    ],
)
def test_problems_of_the_machine_are_not_taken_for_those_of_the_model(text, is_it):
    assert error_text.is_about_machine(text) is is_it


def write(path, *nodes, inputs=("x",), constants=()):
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["n"]) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        list(constants),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


def test_the_installed_library_says_why_a_run_failed(tmp_path):
    nodes = (
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["f", "x"], ["y"]),
    )
    path = write(tmp_path / "model.onnx", *nodes)
    loaded = OnnxBackend().load(ModelSource("m", "1", path))
    x = Tensor("x", Datatype.INT64, np.array([7, 9]))

    with pytest.raises(ModelFailed) as caught:
        loaded.infer(InferRequest("m", "1", (x,)))

    message = caught.value.message
    assert "Input shape:{2}, requested shape:{7,9}" in message
    for detail in ("onnxruntime", "::", ".h:", "was false"):
        assert detail not in message


def test_a_container_without_a_gpu_does_not_blame_the_model(tmp_path):
    class Missing(Device):
        def begin(self) -> None:
            raise RuntimeError("CUDA Provider not available, can't get interface for it")

    path = write(tmp_path / "model.onnx", helper.make_node("Cast", ["x"], ["y"], to=1))
    with pytest.raises(InvalidConfig) as caught:
        OnnxBackend(Missing(lambda: None)).load(ModelSource("m", "1", path))

    assert caught.value.message == (
        "model.onnx cannot be loaded: CUDA Provider not available, can't get interface for it; "
        "check that the container has a GPU that works and has enough free memory"
    )


def test_a_session_without_memory_does_not_blame_the_model(tmp_path, monkeypatch):
    path = write(tmp_path / "model.onnx", helper.make_node("Cast", ["x"], ["y"], to=1))

    def fail(*_arguments, **_options):
        raise RuntimeError(f"[ONNXRuntimeError] : 1 : FAIL : {ALLOCATION}1600000000\n")

    monkeypatch.setattr(ort, "InferenceSession", fail)
    with pytest.raises(InvalidConfig) as caught:
        OnnxBackend().load(ModelSource("m", "1", path))

    assert caught.value.message == (
        "model.onnx cannot be loaded: Failed to allocate memory for requested buffer of size "
        "1600000000"
    )
