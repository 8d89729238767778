import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openvino as ov
import pytest
from onnx import TensorProto

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.openvino._generated import saved_model_pb2
from moorage_runtime.backends.openvino.backend import OpenvinoBackend
from moorage_runtime.backends.openvino.shapes import ShapeGuard
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest, RequestedOutput
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec
from moorage_runtime.values.validation import RequestRules
from unit.runtime.model_files import write_onnx

SAVED_MODELS = Path(__file__).resolve().parents[3] / "fixtures" / "saved_models"
HALF_PLUS = SAVED_MODELS / "half_plus" / "1"
X = Tensor("x", Datatype.FP32, np.array([[1], [2], [5]], np.float32))
X2 = Tensor("x2", Datatype.FP32, np.array([[0], [2], [4]], np.float32))
OPENVINO_TYPES = {
    "BOOL": "boolean",
    "UINT8": "u8",
    "UINT16": "u16",
    "UINT32": "u32",
    "UINT64": "u64",
    "INT8": "i8",
    "INT16": "i16",
    "INT32": "i32",
    "INT64": "i64",
    "FP16": "f16",
    "BF16": "bf16",
    "FP32": "f32",
    "FP64": "f64",
    "BYTES": "string",
}


def load(path: Path, **options):
    return OpenvinoBackend().load(ModelSource("m", "1", path, **options))


def ask(model, *inputs, outputs=()):
    request = InferRequest("m", "1", inputs, tuple(map(RequestedOutput, outputs)))
    return {output.name: output.array.tolist() for output in model.infer(request)}


@pytest.fixture(scope="module")
def half_plus():
    return load(HALF_PLUS / "saved_model.pb")


def write_ir(path: Path, type_name: str = "f32", dims=(-1, 2)) -> None:
    """A model that returns its input: x to y."""
    ops = ov.opset13
    parameter = ops.parameter(list(dims), getattr(ov.Type, type_name), name="x")
    parameter.output(0).set_names({"x"})
    result = ops.result(parameter, name="y")
    model = ov.Model([result], [parameter], "identity")
    ov.save_model(model, path, compress_to_fp16=False)


def test_weights_written_in_place_neither_change_answers_nor_end_the_process(tmp_path):
    ops = ov.opset13
    table = ops.constant(np.ones((100_000, 1), np.float32))
    rows = ops.parameter([-1], ov.Type.i64, name="rows")
    rows.output(0).set_names({"rows"})
    found = ops.gather(table, rows, ops.constant(np.int64(0)))
    found.output(0).set_names({"found"})
    graph = ov.Model([found], [rows], "table")
    ov.save_model(graph, tmp_path / "model.xml", compress_to_fp16=False)
    code = f"""
import os, pathlib
import numpy as np
from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.openvino.backend import OpenvinoBackend
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor
folder = pathlib.Path({str(tmp_path)!r})
model = OpenvinoBackend().load(ModelSource("m", "1", folder / "model.xml"))
def ask(row):
    rows = Tensor("rows", Datatype.INT64, np.array([row]))
    return model.infer(InferRequest("m", "1", (rows,)))[0].array.item()
with (folder / "model.bin").open("r+b") as file:
    file.write(np.full(100_000, 2, np.float32).tobytes())
    file.flush()
    print(ask(90_000))
    file.truncate(0)
    print(ask(50_000))
"""

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout.split()) == (0, ["1.0", "1.0"]), done.stderr


def test_variables_written_in_place_neither_change_answers_nor_end_the_process(tmp_path):
    shutil.copytree(HALF_PLUS, tmp_path / "1")
    code = f"""
import pathlib
import numpy as np
from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.openvino.backend import OpenvinoBackend
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor
folder = pathlib.Path({str(tmp_path / "1")!r})
model = OpenvinoBackend().load(ModelSource("m", "1", folder / "saved_model.pb"))
def ask(shape):
    x = Tensor("x", Datatype.FP32, np.ones(shape, np.float32))
    return model.infer(InferRequest("m", "1", (x,)))[0].array.max()
with (folder / "variables" / "variables.data-00000-of-00001").open("r+b") as file:
    file.write(np.full(2, 100, np.float32).tobytes())
    file.flush()
    print(ask([1]))
    file.truncate(0)
    print(ask([1, 1]))
"""

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout.split()) == (0, ["3.5", "3.5"]), done.stderr


@pytest.mark.parametrize("name", OPENVINO_TYPES)
def test_every_datatype_is_unchanged(tmp_path, name):
    write_ir(tmp_path / "model.xml", OPENVINO_TYPES[name])
    model = load(tmp_path / "model.xml")
    datatype = Datatype(name)
    array = np.array([[0, 1], [1, 0]]).astype(NUMPY_DTYPE[datatype])
    if datatype is Datatype.BYTES:
        array = np.array([[b"", b"text"], [b"\xff\x00.", "é".encode()]], np.object_)
    array.flags.writeable = False

    (output,) = model.infer(InferRequest("m", "1", (Tensor("x", datatype, array),)))

    assert model.platform == "openvino_ir"
    assert model.inputs == (TensorSpec("x", datatype, (-1, 2)),)
    assert output.datatype is datatype
    assert output.array.dtype == NUMPY_DTYPE[datatype]
    assert np.array_equal(output.array, array)


def test_each_request_begins_with_the_initial_state(tmp_path):
    ops = ov.opset13
    x = ops.parameter([1], ov.Type.f32, name="x")
    kept = ops.read_value(ops.constant(np.zeros(1, np.float32)), "kept")
    total = ops.add(kept, x)
    total.output(0).set_names({"y"})
    model = ov.Model([ops.result(total)], [ops.assign(total, "kept")], [x], "sum")
    ov.save_model(model, tmp_path / "model.xml")
    served = load(tmp_path / "model.xml")

    answers = [ask(served, Tensor("x", Datatype.FP32, np.ones(1, np.float32))) for _ in range(3)]

    assert answers == [{"y": [1.0]}] * 3


@pytest.mark.parametrize(("dims", "shape"), [((), ()), ((-1, 2), (0, 2)), ((3,), (3,))])
def test_scalars_and_empty_tensors_keep_their_shape(tmp_path, dims, shape):
    write_ir(tmp_path / "model.xml", dims=dims)
    tensor = Tensor("x", Datatype.FP32, np.zeros(shape, np.float32))

    (output,) = load(tmp_path / "model.xml").infer(InferRequest("m", "1", (tensor,)))

    assert output.array.shape == shape
    assert output.array.flags.owndata


def test_an_empty_tensor_on_which_an_operator_fails_is_an_error_of_the_request(tmp_path):
    dims = ("n", 1, "h", "w")
    write_onnx(tmp_path / "model.onnx", "MaxPool", dims=dims, kernel_shape=[2, 2])
    model = load(tmp_path / "model.onnx")

    with pytest.raises(InvalidRequest) as error:
        ask(model, Tensor("x", Datatype.FP32, np.zeros((0, 1, 4, 4), np.float32)))

    expected = "input 'x' has shape [0, 1, 4, 4]: every dimension must be 1 or more, because the "
    assert error.value.message.startswith(f"{expected}model fails on empty tensors: OpenVINO: ")


def test_an_onnx_file_has_the_same_names_as_in_onnx_runtime(tmp_path):
    write_onnx(tmp_path / "model.onnx", "Neg", dims=("n", 1))

    model = load(tmp_path / "model.onnx")

    assert model.platform == "onnx_onnxv1"
    assert model.inputs == (TensorSpec("x", Datatype.FP32, (-1, 1)),)
    assert ask(model, X) == {"y": [[-1.0], [-2.0], [-5.0]]}


def test_a_frozen_graph_has_its_nodes_names():
    model = load(SAVED_MODELS / "frozen" / "model.pb")

    assert model.platform == "tensorflow_graphdef"
    assert model.inputs == (TensorSpec("x", Datatype.FP32, (-1,)),)
    assert model.outputs == (TensorSpec("z", Datatype.FP32, (-1,)),)
    assert ask(model, Tensor("x", Datatype.FP32, np.array([1, 2], np.float32))) == {"z": [7, 8]}


def test_the_default_signature_of_a_saved_model_answers_by_default(half_plus):
    assert half_plus.platform == "tensorflow_savedmodel"
    assert ask(half_plus, X) == {"y": [[3.5], [4.0], [5.5]]}


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ((X,), ["y"], {"y": [[3.5], [4.0], [5.5]]}),
        ((X2,), ["outputs"], {"outputs": [[3.0], [4.0], [5.0]]}),
        ((X, X2), ["both"], {"both": [[3.5, 3.0], [4.0, 4.0], [5.5, 5.0]]}),
        ((X2, X), ["classes"], {"classes": [[b"first", b"second"]] * 3}),
        # both signatures accept these
        (
            (X, X2),
            ["classes", "y"],
            {"y": [[3.5], [4.0], [5.5]], "classes": [[b"first", b"second"]] * 3},
        ),
    ],
)
def test_inputs_and_outputs_determine_the_signature(half_plus, inputs, outputs, expected):
    answer = ask(half_plus, *inputs, outputs=outputs)

    assert {name: answer[name] for name in outputs} == expected


def test_a_tensor_within_the_graph_takes_any_shape_as_in_tensorflow(half_plus):
    flat = Tensor("x", Datatype.FP32, np.array([1, 2, 5], np.float32))
    request = InferRequest("m", "1", (flat,))

    RequestRules(half_plus.inputs, half_plus.outputs, dynamic=False).check(request)

    assert half_plus.inputs[0].shape == (-1, 1)
    assert ask(half_plus, flat) == {"y": [3.5, 4.0, 5.5]}


def test_a_shape_that_the_graph_refuses_is_a_client_error(half_plus):
    flat = [Tensor(name, Datatype.FP32, np.ones(3, np.float32)) for name in ("x", "x2")]

    for _ in range(2):
        with pytest.raises(InvalidRequest, match=r"^OpenVINO: .*[Aa]xis"):
            ask(half_plus, *flat, outputs=["both"])


def test_inputs_that_do_not_fit_each_other_fail(half_plus):
    short = Tensor("x2", Datatype.FP32, X2.array[:2])

    with pytest.raises(ModelFailed, match=r"^OpenVINO: "):
        ask(half_plus, X, short, outputs=["both"])


def test_the_number_of_compiled_forms_is_limited():
    model = load(HALF_PLUS / "saved_model.pb")
    tensors = [Tensor("x", Datatype.FP32, np.ones((1,) * rank, np.float32)) for rank in range(9)]

    for tensor in tensors[:8]:
        assert np.array_equal(ask(model, tensor)["y"], np.full(tensor.shape, 3.5))
    with pytest.raises(
        InvalidRequest, match="inputs of 8 dimensions are not served, because 8 other forms"
    ):
        ask(model, tensors[8])
    assert ask(model, X) == {"y": [[3.5], [4.0], [5.5]]}


def test_features_accept_only_their_own_shape(half_plus):
    flat = [Tensor(name, Datatype.FP32, np.ones(3, np.float32)) for name in ("x", "x2")]

    with pytest.raises(InvalidRequest, match=r"input 'x' has shape \[3\]"):
        ask(half_plus, *flat, outputs=["classes"])


def test_a_graph_with_fixed_shapes_accepts_only_these(tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(SAVED_MODELS / "functions" / "1", folder)
    document = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    for node in document.meta_graphs[0].graph_def.node:
        if node.name == "serving_default_rows":
            node.op = "PlaceholderV2"
    (folder / "saved_model.pb").write_bytes(document.SerializeToString())

    model = load(folder / "saved_model.pb")
    rows = Tensor("rows", Datatype.FP32, np.eye(4, dtype=np.float32)[:2])

    assert ask(model, rows)["scores"] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("inputs", "outputs"), [((X2,), []), ((X,), ["both"]), ((X2,), ["y"]), ((X, X2), ["outputs"])]
)
def test_the_error_for_an_unknown_signature_lists_the_signatures(half_plus, inputs, outputs):
    with pytest.raises(InvalidRequest) as caught:
        ask(half_plus, *inputs, outputs=outputs)

    assert "no signature of the model has inputs x" in caught.value.message
    assert "x to y; x, x2 to both, y;" in caught.value.message


def test_only_inputs_of_every_signature_are_required(half_plus):
    assert {spec.name: spec.optional for spec in half_plus.inputs} == {"x": True, "x2": True}
    assert {spec.name: spec.optional for spec in half_plus.outputs} == {
        "y": False,
        "both": True,
        "classes": True,
        "outputs": True,
    }


def test_a_slice_of_constant_text_is_refused_before_the_library_reads_it(tmp_path):
    """The library would return memory that it has freed, or end the process."""
    pb = saved_model_pb2
    text = pb.Attribute(type=7)
    labels = pb.Node(name="labels", op="StridedSlice", attr={"T": text})
    saved = write_saved_model(tmp_path, {"p": "product", "labels": "labels"})
    document = pb.SavedModel.FromString(saved.read_bytes())
    document.meta_graphs[0].graph_def.node.append(labels)
    saved.write_bytes(document.SerializeToString())
    frozen = tmp_path / "model.pb"
    frozen.write_bytes(document.meta_graphs[0].graph_def.SerializeToString())

    for path in (saved, frozen):
        with pytest.raises(InvalidConfig, match=f"{path.name}: .*StridedSlice 'labels' does not"):
            load(path)


def test_signatures_that_are_functions_run_and_pass_text():
    model = load(SAVED_MODELS / "functions" / "1" / "saved_model.pb")
    rows = Tensor("rows", Datatype.FP32, np.eye(4, dtype=np.float32)[:2])
    text = Tensor("text", Datatype.BYTES, np.array([b"a", "é".encode()], np.object_))

    assert ask(model, rows) == {"best": [2, 2], "scores": [[0, 1, 2], [3, 4, 5]]}
    assert ask(model, text, outputs=["text"]) == {"text": [b"a", "é".encode()]}


def write_saved_model(folder: Path, outputs: dict[str, str]) -> Path:
    """Nodes x and y, their product, and 1: the outputs are nodes by key."""
    pb = saved_model_pb2
    floats = pb.Attribute(type=1)
    rows = pb.Attribute(shape=pb.Shape(dim=[pb.Shape.Dim(size=-1)]))
    nodes = [
        *(
            pb.Node(name=each, op="Placeholder", attr={"dtype": floats, "shape": rows})
            for each in "xy"
        ),
        pb.Node(name="product", op="Mul", input=["x", "y"], attr={"T": floats}),
        pb.Node(
            name="one",
            op="Const",
            attr={
                "dtype": floats,
                "value": pb.Attribute(
                    tensor=pb.Tensor.FromString(b"\x08\x01\x12\x00\x2d\x00\x00\x80\x3f")
                ),
            },
        ),
    ]

    def info(node: str):
        return pb.TensorInfo(name=f"{node}:0", dtype=1, tensor_shape=rows.shape)

    signature = pb.Signature(
        method_name="tensorflow/serving/predict",
        inputs={each: info(each) for each in "xy"},
        outputs={key: info(node) for key, node in outputs.items()},
    )
    graph = pb.MetaGraph(
        meta_info_def=pb.MetaGraph.Info(tags=["serve"]),
        graph_def=pb.Graph(node=nodes),
        signature_def={"serving_default": signature},
    )
    path = folder / "saved_model.pb"
    path.write_bytes(pb.SavedModel(meta_graphs=[graph]).SerializeToString())
    return path


@pytest.mark.parametrize(
    "outputs",
    [
        {"p": "product", "q": "product", "x": "product"},
        {"x": "y", "y": "x"},
        {"a": "x", "b": "x", "product": "product", "y": "y"},
    ],
    ids=["several keys", "swapped", "passed through"],
)
def test_each_key_has_its_own_tensor(tmp_path, outputs):
    model = load(write_saved_model(tmp_path, outputs))
    values = {"x": [2, 3], "y": [5, 7]}
    inputs = [Tensor(n, Datatype.FP32, np.array(v, np.float32)) for n, v in values.items()]

    answer = ask(model, *inputs)

    values["product"] = [10, 21]
    assert answer == {key: values[node] for key, node in outputs.items()}
    assert {spec.name for spec in model.outputs} == outputs.keys()


def test_an_output_without_an_input_is_refused(tmp_path):
    path = write_saved_model(tmp_path, {"p": "product", "one": "one"})

    with pytest.raises(InvalidConfig, match="output one does not depend on an input, which"):
        load(path)


def test_text_without_elements_does_not_end_the_process():
    model = load(SAVED_MODELS / "functions" / "1" / "saved_model.pb")
    text = Tensor("text", Datatype.BYTES, np.empty(0, np.object_))

    assert ask(model, text, outputs=["text"]) == {"text": []}


def test_signatures_that_cannot_be_served_are_logged(caplog):
    with caplog.at_level(logging.WARNING):
        loaded = load(HALF_PLUS / "saved_model.pb")
        load(SAVED_MODELS / "functions" / "1" / "saved_model.pb")

    assert "predict_examples" not in loaded.signatures
    for told in (
        "WARNING",
        "'predict_examples'",
        "input 'examples'",
        "'parse'",
        "No conversion rule found for operations: ParseExampleV2",
    ):
        assert told in caplog.text


def test_a_saved_model_whose_default_signature_cannot_be_served_does_not_load(tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(HALF_PLUS, folder)
    document = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    signatures = document.meta_graphs[0].signature_def
    signatures["serving_default"].CopyFrom(signatures["predict_examples"])
    (folder / "saved_model.pb").write_bytes(document.SerializeToString())

    with pytest.raises(
        InvalidConfig, match=r"saved_model\.pb: signature 'serving_default': input 'examples'"
    ):
        load(folder / "saved_model.pb")


def test_temporary_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    model = load(HALF_PLUS / "saved_model.pb")

    assert list(tmp_path.iterdir()) == []
    assert ask(model, X) == {"y": [[3.5], [4.0], [5.5]]}


def test_a_missing_temporary_folder_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))

    with pytest.raises(
        InvalidConfig, match=r"saved_model\.pb: signature 'classify_words': feature 'words' is"
    ):
        load(HALF_PLUS / "saved_model.pb")


OFFLINE = """
import pathlib, socket, sys, threading

def refuse(*arguments, **_):
    print("asked for", *arguments[:1])
    raise OSError("no network")

socket.getaddrinfo = socket.socket.connect = refuse
from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.openvino.backend import OpenvinoBackend
OpenvinoBackend().load(ModelSource("m", "1", pathlib.Path(sys.argv[1])))
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join(10)
"""


def test_telemetry_is_disabled(tmp_path):
    command = [sys.executable, "-c", OFFLINE, SAVED_MODELS / "frozen" / "model.pb"]
    # without this, the library is silent on a build server
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    done = subprocess.run(command, env=env, capture_output=True, check=True, timeout=60)

    assert done.stdout == b""
    assert list(tmp_path.iterdir()) == []


ON_ONE_CORE = """
import os, pathlib, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np
from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.openvino.backend import OpenvinoBackend
from moorage_runtime.values.errors import ModelFailed
from moorage_runtime.values.inference import InferRequest, RequestedOutput
from moorage_runtime.values.tensors import Datatype, Tensor

model = OpenvinoBackend().load(ModelSource("m", "1", pathlib.Path(sys.argv[1])))
for sizes in ((2, 2), (3, 2), (3, 3), (2, 3)):
    inputs = tuple(
        Tensor(name, Datatype.FP32, np.ones((size, 1), np.float32))
        for name, size in zip(("x", "x2"), sizes)
    )
    try:
        outputs = model.infer(InferRequest("m", "1", inputs, (RequestedOutput("both"),)))
    except ModelFailed:
        print("refused")
    else:
        print({output.name: output.shape for output in outputs}["both"])
"""


def test_inputs_that_do_not_fit_each_other_fail_on_one_core_as_well():
    command = [sys.executable, "-c", ON_ONE_CORE, HALF_PLUS / "saved_model.pb"]

    done = subprocess.run(command, capture_output=True, check=True, timeout=60)

    assert done.stdout.split(b"\n") == [b"(2, 2)", b"refused", b"(3, 2)", b"refused", b""]


def test_a_shape_guard_stays_correct_beyond_its_cache():
    ops = ov.opset13
    left, right = (ops.parameter([-1, 1], ov.Type.f32) for _ in range(2))
    guard = ShapeGuard(ov.Model([ops.result(ops.concat([left, right], 1))], [left, right], "m"))

    for size in range(1, 1100):
        guard.check([np.empty((size, 1))] * 2)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            guard.check([np.empty((1, 1)), np.empty((2, 1))])
    guard.check([np.empty((1, 1))] * 2)


def test_threads_share_a_model(half_plus):
    barrier = threading.Barrier(4)

    def work(number: int) -> list[bool]:
        barrier.wait(10)
        rows = np.full((number + 1, 1), number, np.float32)
        expected = {"y": [[number / 2 + 3]] * (number + 1)}
        return [ask(half_plus, Tensor("x", Datatype.FP32, rows)) == expected for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        assert all(map(all, pool.map(work, range(4))))


@pytest.mark.parametrize("name", ["model.onnx", "model.xml", "model.pb", "saved_model.pb"])
@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x09" * 100])
def test_an_invalid_file_is_reported_without_its_path(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(InvalidConfig) as caught:
        load(tmp_path / name)

    assert name in caught.value.message
    assert str(tmp_path) not in caught.value.message
    assert len(caught.value.message) > len(name) + 20


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(InvalidConfig, match=r"model\.pt is not an OpenVINO file"):
        load(tmp_path / "model.pt")


def test_a_declaration_that_contradicts_the_file_is_refused():
    declared = (TensorSpec("x", Datatype.FP64, (-1, 1)),)

    with pytest.raises(
        InvalidConfig, match=r"model\.yaml: inputs\[0\]: 'x' is declared as FP64 \[-1, 1\]"
    ):
        load(HALF_PLUS / "saved_model.pb", inputs=declared)


def test_a_failing_run_reports_the_message_of_the_library(tmp_path):
    write_onnx(tmp_path / "model.onnx", "Identity", TensorProto.FLOAT, (2, 3))
    tensor = Tensor("x", Datatype.FP32, np.ones((1, 1), np.float32))

    with pytest.raises(ModelFailed, match=r"OpenVINO: .*shape"):
        ask(load(tmp_path / "model.onnx"), tensor)
