import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from moorage_runtime.values.inference import InferRequest, RequestedOutput
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec
from moorage_runtime.values.validation import RequestRules
from unit.runtime.model_files import write_onnx

KINDS = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}


def load(path: Path, **options):
    return OnnxBackend().load(ModelSource("m", "1", path, **options))


@pytest.mark.parametrize("name", KINDS)
def test_every_datatype_is_unchanged(tmp_path, name):
    write_onnx(tmp_path / "model.onnx", kind=KINDS[name], dims=(None, 2))
    model = load(tmp_path / "model.onnx")
    datatype = Datatype(name)
    if datatype is Datatype.BYTES:
        array = np.empty((2, 2), np.object_)
        array[:] = [[b"", b"text"], [b"\xff\x00", "é".encode()]]
    else:
        array = np.array([[0, 1], [1, 0]], NUMPY_DTYPE[datatype])

    (output,) = model.infer(InferRequest("m", "1", (Tensor("x", datatype, array),)))

    assert model.inputs == (TensorSpec("x", datatype, (-1, 2)),)
    assert model.outputs == (TensorSpec("y", datatype, (-1, 2)),)
    assert output.datatype is datatype
    assert output.array.dtype == NUMPY_DTYPE[datatype]
    assert np.array_equal(output.array, array)


@pytest.mark.parametrize(
    ("dims", "expected"), [((), ()), ((3,), (3,)), (("n", 3), (-1, 3)), ((None,), (-1,))]
)
def test_shapes_come_from_the_graph(tmp_path, dims, expected):
    write_onnx(tmp_path / "model.onnx", dims=dims)

    assert load(tmp_path / "model.onnx").inputs == (TensorSpec("x", Datatype.FP32, expected),)


def test_an_input_without_a_shape_accepts_every_shape(tmp_path):
    write_onnx(tmp_path / "model.onnx", dims=None)
    tensor = Tensor("x", Datatype.FP32, np.ones((2, 3), np.float32))
    request = InferRequest("m", "1", (tensor,))
    model = load(tmp_path / "model.onnx")

    RequestRules(model.inputs, model.outputs, dynamic=False).check(request)
    (output,) = model.infer(request)

    assert model.inputs == (TensorSpec("x", Datatype.FP32, (), any_shape=True),)
    assert output.array.shape == (2, 3)


def test_outputs_are_contiguous_and_scalars_stay_scalars(tmp_path):
    write_onnx(tmp_path / "model.onnx", dims=())
    tensor = Tensor("x", Datatype.FP32, np.array(2.5, np.float32))

    (output,) = load(tmp_path / "model.onnx").infer(InferRequest("m", "1", (tensor,)))

    assert output.array.shape == ()
    assert output.array.flags.c_contiguous


def test_requested_outputs_are_computed(tmp_path):
    write_onnx(tmp_path / "model.onnx")
    tensor = Tensor("x", Datatype.FP32, np.ones(2, np.float32))
    request = InferRequest("m", "1", (tensor,), (RequestedOutput("y"),))

    assert [output.name for output in load(tmp_path / "model.onnx").infer(request)] == ["y"]


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x09" * 100])
def test_an_invalid_file_is_reported_without_its_path(tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)

    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path / "model.onnx")

    message = caught.value.message
    assert message.startswith("model.onnx is not a valid ONNX model: Load model from")
    assert str(tmp_path) not in message
    assert "ONNXRuntimeError" not in message
    assert len(message) > len("model.onnx is not a valid ONNX model: Load model from")


def test_missing_weights_are_reported_without_the_folder_of_a_relative_path(tmp_path, monkeypatch):
    weights = onnx.numpy_helper.from_array(np.ones(2, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path = tmp_path / "models" / "iris" / "model.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (path.parent / "w.bin").unlink()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidConfig, match=r'does not exist: "/w\.bin"$'):
        load(path.relative_to(tmp_path))


def test_an_unsupported_datatype_is_refused(tmp_path):
    write_onnx(tmp_path / "model.onnx", kind=TensorProto.BFLOAT16)

    with pytest.raises(InvalidConfig, match=r"model\.onnx: input 'x' has type tensor\(bfloat16\)"):
        load(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (TensorSpec("z", Datatype.FP32, (-1,)), r"inputs\[0\].name: model.onnx has no 'z'"),
        (
            TensorSpec("x", Datatype.FP64, (-1,)),
            r"model\.yaml: inputs\[0\]: 'x' is declared as FP64 \[-1\]",
        ),
        (
            TensorSpec("x", Datatype.FP32, (4,)),
            r"model\.yaml: inputs\[0\]: 'x' is declared as FP32 \[4\]",
        ),
    ],
)
def test_a_declaration_that_contradicts_the_graph_is_refused(tmp_path, declared, message):
    write_onnx(tmp_path / "model.onnx")

    with pytest.raises(InvalidConfig, match=message):
        load(tmp_path / "model.onnx", inputs=(declared,))


def test_a_failing_run_reports_the_message_of_the_library(tmp_path):
    write_onnx(tmp_path / "model.onnx", dims=(2, 3))
    tensor = Tensor("x", Datatype.FP32, np.ones((1, 1), np.float32))

    with pytest.raises(ModelFailed, match=r"^ONNX Runtime: .*x") as caught:
        load(tmp_path / "model.onnx").infer(InferRequest("m", "1", (tensor,)))

    assert "ONNXRuntimeError" not in caught.value.message


def test_an_output_that_is_not_a_tensor_is_not_served(tmp_path, caplog):
    """skl2onnx adds ZipMap to every classifier by default."""
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            coefficients=[1.0, 0.0, 0.0, 1.0],
            intercepts=[0.0, 0.0],
            classlabels_ints=[0, 1],
        ),
        helper.make_node(
            "ZipMap", ["scores"], ["dictionaries"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]
        ),
    ]
    element = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
            helper.make_value_info("dictionaries", helper.make_sequence_type_proto(element)),
        ],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 9
    onnx.save(model, tmp_path / "model.onnx")

    loaded = OnnxBackend().load(ModelSource("m", "1", tmp_path / "model.onnx"))
    x = Tensor("x", Datatype.FP32, np.float32([[2, 1], [0, 3]]))

    assert [spec.name for spec in loaded.outputs] == ["label"]
    assert loaded.infer(InferRequest("m", "1", (x,)))[0].array.tolist() == [0, 1]
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert "'dictionaries'" in warning.message
    assert loaded.merge_obstacle == ""


ENVIRONMENT_OF_THE_LIBRARY = """
import importlib, os, sys

class Watch:
    def find_spec(self, name, *_):
        if name == "onnxruntime":
            print(os.environ.get("ORT_DISABLE_TELEMETRY"))

sys.meta_path.insert(0, Watch())
importlib.import_module(sys.argv[1])
"""


@pytest.mark.parametrize("first", ["moorage_runtime.app", "moorage_runtime.backends.onnx.backend"])
def test_telemetry_is_off_before_the_library_is_imported(first):
    command = [sys.executable, "-c", ENVIRONMENT_OF_THE_LIBRARY, first]
    env = {"PATH": os.environ["PATH"]}

    done = subprocess.run(command, env=env, capture_output=True, check=True, timeout=60)

    assert done.stdout == b"1\n"
