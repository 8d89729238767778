"""The TorchScript backend; its tests need torch, which the development tools do not install."""

import itertools
from pathlib import Path
from typing import NamedTuple

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


class Scored(NamedTuple):
    label: torch.Tensor
    score: torch.Tensor


class Scoring(torch.nn.Module):
    def forward(self, x):
        return Scored(x, 10 * x)


def spec(name: str, datatype: str = "FP32", *shape: int, optional: bool = False) -> TensorSpec:
    return TensorSpec(name, Datatype(datatype), shape or (-1,), optional)


def save(path: Path, source: str) -> Path:
    """A module with this source as its forward method, and a buffer ``runs``."""
    # torch caches compiled code by class, so each module gets its own class
    kind = type(f"Module{next(NUMBERS)}", (torch.nn.Module,), {})
    module = kind()
    module.register_buffer("runs", torch.zeros(1))
    scripted = torch.jit.script(module)
    # these names resolve in the frame that calls define
    scripted.define(f"{source}\n")
    scripted.save(str(path))
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
    [each for each in Datatype if each is not Datatype.BYTES],
)
@pytest.mark.parametrize("values", [[0, 1, 1], 1, [], [[[0, 1]]]], ids=str)
def test_datatypes_and_shapes_go_through_unchanged(tmp_path, datatype, values):
    path = save(tmp_path / "model.pt", "def forward(self, x):\n    return x")
    shape = np.shape(values)
    model = load(path, (TensorSpec("x", datatype, shape),), (TensorSpec("y", datatype, shape),))
    given = tensor("x", datatype, values)

    (output,) = model.infer(InferRequest("m", "1", (given,)))

    assert output.datatype == datatype
    assert output.array.dtype == given.array.dtype
    assert output.shape == shape
    assert np.array_equal(output.array, given.array)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x.t()", [[1, 4], [2, 5], [3, 6]]),
        ("x[:, ::2]", [[1, 3], [4, 6]]),
        ("x.sum().expand(2, 2)", [[21, 21], [21, 21]]),
        ("x[:, 1:1]", [[], []]),
        ("torch._neg_view(x)", [[-1, -2, -3], [-4, -5, -6]]),
        ("torch.complex(x, x).conj().imag", [[-1, -2, -3], [-4, -5, -6]]),
        ("x.add_(1)", [[2, 3, 4], [5, 6, 7]]),
        ("x.requires_grad_() * 2", [[2, 4, 6], [8, 10, 12]]),
    ],
)
def test_views_are_returned_in_order(tmp_path, body, expected):
    path = save(tmp_path / "model.pt", f"def forward(self, x):\n    return {body}")
    model = load(path, (spec("x", "FP32", -1, 3),), (spec("y", "FP32", -1, -1),))
    given = tensor("x", "FP32", [[1, 2, 3], [4, 5, 6]])

    (output,) = model.infer(InferRequest("m", "1", (given,)))

    assert output.array.tolist() == expected
    assert output.array.flags.c_contiguous
    assert given.array.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_later_run_does_not_change_an_answer(tmp_path):
    """The module returns its own buffer, which each run changes."""
    path = save(
        tmp_path / "model.pt",
        "def forward(self, x):\n    self.runs.add_(x)\n    return self.runs",
    )
    model = load(path, (spec("x"),), (spec("y"),))
    request = InferRequest("m", "1", (tensor("x", "FP32", [1]),))

    (first,) = model.infer(request)
    (second,) = model.infer(request)

    assert (first.array.tolist(), second.array.tolist()) == ([1], [2])


OPTIONAL = """def forward(self, a, b: Optional[torch.Tensor]=None, c: Optional[torch.Tensor]=None):
    if b is not None:
        a = a + b
    if c is not None:
        a = a * c
    return a
"""


@pytest.mark.parametrize(
    ("given", "expected"), [("a", 2), ("ab", 3), ("ac", 20), ("abc", 30)], ids=str
)
def test_an_omitted_input_does_not_shift_the_others(tmp_path, given, expected):
    values = {"a": 2, "b": 1, "c": 10}
    model = load(
        save(tmp_path / "model.pt", OPTIONAL),
        (spec("a"), spec("b", optional=True), spec("c", optional=True)),
        (spec("y"),),
    )
    inputs = tuple(tensor(name, "FP32", [values[name]]) for name in given)

    (output,) = model.infer(InferRequest("m", "1", inputs))

    assert output.array.tolist() == [expected]


def test_an_undeclared_argument_does_not_shift_the_others(tmp_path):
    model = load(save(tmp_path / "model.pt", OPTIONAL), (spec("a"), spec("c")), (spec("y"),))
    inputs = (tensor("a", "FP32", [2]), tensor("c", "FP32", [10]))

    (output,) = model.infer(InferRequest("m", "1", inputs))

    assert output.array.tolist() == [20]


def test_numbers_and_keywords_are_arguments(tmp_path):
    source = "def forward(self, x, n: int, *, is_negative: bool, scale: float):\n"
    source += "    return -n * scale * x if is_negative else n * scale * x"
    inputs = (
        spec("x"),
        TensorSpec("n", Datatype.INT64, ()),
        TensorSpec("scale", Datatype.FP64, ()),
        TensorSpec("is_negative", Datatype.BOOL, (1,)),
    )
    model = load(save(tmp_path / "model.pt", source), inputs, (spec("y"),))
    request = InferRequest(
        "m",
        "1",
        (
            tensor("x", "FP32", [1, 2]),
            tensor("n", "INT64", 3),
            tensor("scale", "FP64", 0.5),
            tensor("is_negative", "BOOL", [True]),
        ),
    )

    assert model.infer(request)[0].array.tolist() == [-1.5, -3]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("score", "label"), [10, 1]),
        (("label",), [1]),
        (("first", "second"), [1, 10]),
        (("score", "other"), [1, 10]),
    ],
)
def test_named_tuples_are_read_by_name_if_all_names_match(tmp_path, names, expected):
    torch.jit.script(Scoring()).save(str(tmp_path / "model.pt"))
    model = load(tmp_path / "model.pt", (spec("x"),), tuple(map(spec, names)))

    outputs = model.infer(InferRequest("m", "1", (tensor("x", "FP32", [1]),)))

    assert [output.name for output in outputs] == list(names)
    assert [output.array.tolist() for output in outputs] == [[each] for each in expected]


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


@pytest.mark.parametrize(
    ("arguments", "inputs", "message"),
    [
        (
            "a, b",
            (spec("b"), spec("z")),
            r"inputs\[0\]\.name is 'b', but its place is that of 'a' in forward\(a, b\) of",
        ),
        ("a, b", (spec("a"),), r"inputs has no tensor for 'b' in forward\(a, b\) of model\.pt"),
        (
            "a, b: Optional[torch.Tensor]",
            (spec("a"), spec("b", optional=True)),
            "inputs has no tensor for 'b'",
        ),
        ("a: List[torch.Tensor]", (spec("a"),), r"argument 'a' .* is List\[Tensor\]: must be"),
        ("a: Optional[str]", (spec("a"),), r"argument 'a' .* is Optional\[str\]: must be"),
    ],
)
def test_inputs_that_do_not_fit_the_arguments_are_refused(tmp_path, arguments, inputs, message):
    path = save(tmp_path / "model.pt", f"def forward(self, {arguments}):\n    return a")

    with pytest.raises(InvalidConfig, match=message):
        load(path, inputs, (spec("y"),))


def test_a_module_without_forward_is_refused(tmp_path):
    path = save(tmp_path / "model.pt", "def other(self, x):\n    return x")

    with pytest.raises(InvalidConfig, match=r"model\.pt has no method forward"):
        load(path, (spec("x"),), (spec("y"),))


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
        ("{1: x, 2: x}", "returned no output 'y', only 1, 2"),
        ("3", "output 'y' of the model is int: must be a tensor"),
        ("None", "output 'y' of the model is NoneType: must be a tensor"),
        ("(x, 1), x", "output 'y' of the model is tuple: must be a tensor"),
        ("x.to_sparse()", "output 'y' of the model has the layout sparse_coo: must be dense"),
        ("torch.complex(x, x)", "output 'y' of the model is complex64: must be FP32"),
        ("x.to(torch.float8_e5m2)", "output 'y' of the model is float8_e5m2: must be FP32"),
        ("x.to(torch.bfloat16)", "output 'y' of the model is bfloat16: must be FP32"),
    ],
)
def test_a_model_with_other_outputs_than_declared_fails(tmp_path, body, message):
    path = save(tmp_path / "model.pt", f"def forward(self, x):\n    return {body}")
    model = load(path, (spec("x"),), (spec("y"),))

    with pytest.raises(ModelFailed, match=message):
        model.infer(InferRequest("m", "1", (tensor("x", "FP32", [1, 2]),)))
