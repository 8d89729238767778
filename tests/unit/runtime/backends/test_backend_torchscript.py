"""The TorchScript backend; its tests need torch, which the development tools do not install."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.repository.contents import config
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

torch = pytest.importorskip("torch", reason="torch is gigabytes of GPU libraries")
# torch marks its own format as deprecated, but existing files remain
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

NUMBERS = itertools.count()
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "05-torchscript"


def backend():
    from moorage_runtime.backends.torchscript import TorchScriptBackend  # noqa: PLC0415 - needs torch

    return TorchScriptBackend()


def spec(name: str, datatype: str = "FP32", *shape: int) -> TensorSpec:
    return TensorSpec(name, Datatype(datatype), shape or (-1,))


def save(path: Path, source: str) -> Path:
    """A module with this source as its forward method."""
    # torch caches compiled code by class, so each module gets its own class
    kind = type(f"Module{next(NUMBERS)}", (torch.nn.Module,), {})
    module = torch.jit.script(kind())
    module.define(f"{source}\n")
    module.save(str(path))
    return path


def load(path: Path, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]):
    return backend().load(ModelSource("m", "1", path, inputs, outputs))


def tensor(name: str, datatype: str, values: object) -> Tensor:
    kind = Datatype(datatype)
    array = np.array(values, NUMPY_DTYPE[kind])
    array.flags.writeable = False
    return Tensor(name, kind, array)


def test_the_example_adds_and_finds_the_largest():
    declared = config.parse((EXAMPLE / "model.yaml").read_bytes())
    model = load(
        EXAMPLE / "1" / "model.pt", config.specs(declared.inputs), config.specs(declared.outputs)
    )
    a = tensor("a", "FP32", [[1, 2, 3]])
    b = tensor("b", "FP32", [[1, 1, 1]])

    total, largest = model.infer(InferRequest("m", "1", (b, a)))

    assert model.platform == "pytorch_torchscript"
    assert (total.name, total.array.tolist()) == ("total", [[2, 3, 4]])
    assert (largest.name, largest.array.tolist()) == ("largest", [4])


@pytest.mark.parametrize(
    "datatype",
    ["BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64"],
)
def test_datatypes_go_through_unchanged(tmp_path, datatype):
    path = save(tmp_path / "model.pt", "def forward(self, x):\n    return x.clone()")
    model = load(path, (spec("x", datatype),), (spec("y", datatype),))
    given = tensor("x", datatype, [0, 1, 1])

    (output,) = model.infer(InferRequest("m", "1", (given,)))

    assert output.datatype == datatype
    assert np.array_equal(output.array, given.array)


def test_inputs_with_other_names_and_tuples_are_matched_by_order(tmp_path):
    path = save(tmp_path / "model.pt", "def forward(self, x, y):\n    return x - y, y - x")
    model = load(path, (spec("p"), spec("q")), (spec("first"), spec("second")))
    request = InferRequest("m", "1", (tensor("q", "FP32", [1]), tensor("p", "FP32", [5])))

    first, second = model.infer(request)

    assert (first.array.tolist(), second.array.tolist()) == ([4], [-4])


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ((), (), "declare inputs and outputs in model.yaml"),
        ((spec("x", "BYTES"),), (spec("y"),), r"inputs\[0\].datatype is BYTES"),
        ((spec("x"),), (spec("y", "BYTES"),), r"outputs\[0\].datatype is BYTES"),
        ((spec("x"), spec("z")), (spec("y"),), r"inputs has 2 tensors: .*1 arguments \(x\)"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(tmp_path, inputs, outputs, message):
    path = save(tmp_path / "model.pt", "def forward(self, x):\n    return x")

    with pytest.raises(InvalidConfig, match=message):
        load(path, inputs, outputs)


def test_an_invalid_file_is_reported(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"no module")

    with pytest.raises(InvalidConfig, match=r"model\.pt is not a valid TorchScript module"):
        load(tmp_path / "model.pt", (spec("x"),), (spec("y"),))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x.view(7)", "TorchScript: .*shape"),
        ("x.to(torch.float64)", "output 'y' of the model is float64: must be FP32"),
        ("[]", "returned 0 tensors"),
        ("{'z': x}", "returned no output 'y', only z"),
    ],
)
def test_a_model_with_other_outputs_than_declared_fails(tmp_path, body, message):
    path = save(tmp_path / "model.pt", f"def forward(self, x):\n    return {body}")
    model = load(path, (spec("x"),), (spec("y"),))

    with pytest.raises(ModelFailed, match=message):
        model.infer(InferRequest("m", "1", (tensor("x", "FP32", [1, 2]),)))
