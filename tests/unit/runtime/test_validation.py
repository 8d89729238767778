import numpy as np
import pytest

from moorage_runtime.errors import InvalidRequest, ModelFailed
from moorage_runtime.inference import InferRequest, RequestedOutput
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec
from moorage_runtime.validation import RequestRules, has_batch

INPUTS = (
    TensorSpec("a", Datatype.FP32, (-1, 4)),
    TensorSpec("b", Datatype.INT64, ()),
    TensorSpec("hint", Datatype.BYTES, (1,), optional=True),
)
OUTPUTS = (TensorSpec("y", Datatype.FP32, (-1,)), TensorSpec("z", Datatype.FP32, (-1,)))
RULES = RequestRules(INPUTS, OUTPUTS, dynamic=False)


def tensor(name: str, datatype: str = "FP32", *shape: int) -> Tensor:
    kind = Datatype(datatype)
    return Tensor(name, kind, np.zeros(shape, NUMPY_DTYPE[kind]))


def request(*inputs: Tensor, outputs: tuple[str, ...] = ()) -> InferRequest:
    return InferRequest("m", "", inputs, tuple(RequestedOutput(name) for name in outputs))


A = tensor("a", "FP32", 2, 4)
B = tensor("b", "INT64")


@pytest.mark.parametrize(
    "fitting",
    [
        request(A, B),
        request(B, A),
        request(A, B, tensor("hint", "BYTES", 1)),
        request(tensor("a", "FP32", 0, 4), B),
        request(A, B, outputs=("z",)),
        request(A, B, outputs=("z", "y")),
    ],
)
def test_a_fitting_request_passes(fitting):
    RULES.check(fitting)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (request(A), "input 'b' is missing, expected 'a', 'b', 'hint'"),
        (request(), "input 'a', 'b' is missing, expected 'a', 'b', 'hint'"),
        (request(A, A, B), "input 'a' is given twice"),
        (request(A, B, tensor("c", "FP32", 1)), "unexpected input 'c', expected 'a', 'b', 'hint'"),
        (request(tensor("a", "FP64", 2, 4), B), "input 'a' has datatype FP64, expected FP32"),
        (
            request(tensor("a", "FP32", 2, 3), B),
            "input 'a' has shape [2, 3], expected [-1, 4] (-1 stands for any size)",
        ),
        (
            request(tensor("a", "FP32", 4), B),
            "input 'a' has shape [4], expected [-1, 4] (-1 stands for any size)",
        ),
        (request(A, tensor("b", "INT64", 1)), "input 'b' has shape [1], expected []"),
        (request(A, B, outputs=("x",)), "unexpected output 'x', expected 'y', 'z'"),
        (request(A, B, outputs=("y", "y")), "output 'y' is requested twice"),
    ],
)
def test_a_wrong_request_is_refused_with_what_was_expected(wrong, message):
    with pytest.raises(InvalidRequest) as caught:
        RULES.check(wrong)

    assert caught.value.message == message


def test_a_dynamic_model_takes_whatever_comes_once():
    rules = RequestRules((), (), dynamic=True)

    rules.check(request(A, B, outputs=("anything",)))
    with pytest.raises(InvalidRequest, match="'a' is given twice"):
        rules.check(request(A, A))


def test_outputs_come_in_the_order_asked_for_else_in_the_models():
    y, z = tensor("y", "FP32", 1), tensor("z", "FP32", 1)

    assert RULES.select(request(outputs=("z", "y")), (y, z)) == (z, y)
    assert RULES.select(request(), (z, y)) == (y, z)
    assert RequestRules((), (), dynamic=True).select(request(), (z, y)) == (z, y)


def test_an_optional_output_is_given_when_it_is_asked_for():
    y, z = tensor("y", "FP32", 1), tensor("z", "FP32", 1)
    optional = TensorSpec("z", Datatype.FP32, (-1,), optional=True)
    rules = RequestRules(INPUTS, (OUTPUTS[0], optional), dynamic=False)

    assert rules.select(request(), (y,)) == rules.select(request(), (z, y)) == (y,)
    assert rules.select(request(outputs=("z",)), (y, z)) == (z,)


def test_a_model_that_forgets_an_output_fails():
    with pytest.raises(ModelFailed, match="returned no output 'z', it returned 'y'"):
        RULES.select(request(), (tensor("y", "FP32", 1),))


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(-1, 4), (-1, 2)], True),
        ([(-1, 4), (-1,)], False),
        ([(-1,), (-1,)], False),
        ([(2, 4), (-1, 2)], False),
        ([], False),
    ],
)
def test_a_batch_leads_every_shape(shapes, expected):
    specs = [TensorSpec("t", Datatype.FP32, shape) for shape in shapes]

    assert has_batch(specs, []) is expected
