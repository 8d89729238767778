import msgspec
import numpy as np
import pytest

from moorage_runtime.values.errors import InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest, ModelMetadata, RequestedOutput
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec
from moorage_runtime.values.validation import RequestRules, has_batch, rules_of

INPUTS = (
    TensorSpec("a", Datatype.FP32, (-1, 4)),
    TensorSpec("b", Datatype.INT64, ()),
    TensorSpec("hint", Datatype.BYTES, (1,), optional=True),
)
OUTPUTS = (TensorSpec("y", Datatype.FP32, (-1,)), TensorSpec("z", Datatype.FP32, (-1,)))


@pytest.fixture
def rules() -> RequestRules:
    return RequestRules(INPUTS, OUTPUTS, dynamic=False)


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
def test_a_fitting_request_passes(rules, fitting):
    rules.check(fitting)


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        # not the optional input
        (request(A), ["input 'b' is missing: the model requires 'a', 'b'\n"]),
        (request(), ["input 'a', 'b' is missing: the model requires 'a', 'b'\n"]),
        (request(A, A, B), ["duplicate input 'a'"]),
        (request(A, B, tensor("c", "FP32", 1)), ["unknown input 'c'", "'a', 'b', 'hint'"]),
        (request(tensor("a", "FP64", 2, 4), B), ["input 'a'", "FP64", "FP32"]),
        (
            request(tensor("a", "FP32", 2, 3), B),
            ["input 'a'", "[2, 3]", "must be [-1, 4] (-1 is any size)\n"],
        ),
        (request(tensor("a", "FP32", 4), B), ["input 'a'", "[4]", "[-1, 4]"]),
        (request(A, tensor("b", "INT64", 1)), ["input 'b'", "[1]", "must be []\n"]),
        (request(A, B, outputs=("x",)), ["unknown output 'x'", "'y', 'z'"]),
        (request(A, B, outputs=("y", "y")), ["duplicate", "output 'y'"]),
    ],
)
def test_an_invalid_request_is_refused_with_what_is_allowed(rules, wrong, facts):
    with pytest.raises(InvalidRequest) as caught:
        rules.check(wrong)

    for fact in facts:
        assert fact in f"{caught.value.message}\n"


def test_any_number_is_accepted_for_any_number():
    number = TensorSpec("a", Datatype.FP32, (-1, 4), any_number=True)
    rules = RequestRules((number,), (), dynamic=False)

    rules.check(request(tensor("a", "INT8", 2, 4)))
    with pytest.raises(InvalidRequest, match="input 'a' has datatype BYTES"):
        rules.check(request(tensor("a", "BYTES", 2, 4)))


@pytest.mark.parametrize(
    ("count", "named", "more"), [(0, 0, "none"), (20, 20, "'19'"), (21, 20, "'19', …")]
)
def test_up_to_twenty_names_are_listed(count, named, more):
    inputs = [TensorSpec(str(index), Datatype.FP32, ()) for index in range(count)]

    with pytest.raises(InvalidRequest) as caught:
        RequestRules(inputs, (), dynamic=False).check(request(A))

    assert caught.value.message.count("'") == 2 + 2 * named
    assert caught.value.message.endswith(more)


def test_the_rules_of_a_version_follow_its_metadata():
    metadata = ModelMetadata("m", "1", ("1",), "p", INPUTS, OUTPUTS)
    rules, dynamic = rules_of(metadata), rules_of(msgspec.structs.replace(metadata, dynamic=True))

    dynamic.check(request(A))
    with pytest.raises(InvalidRequest, match="input 'b' is missing"):
        rules.check(request(A))
    with pytest.raises(InvalidRequest, match="unknown output 'x'"):
        rules.check(request(A, B, outputs=("x",)))


def test_a_dynamic_model_accepts_any_tensor_once():
    rules = RequestRules((), (), dynamic=True)

    rules.check(request(A, B, outputs=("anything",)))
    with pytest.raises(InvalidRequest, match="duplicate input 'a'"):
        rules.check(request(A, A))


def test_outputs_have_the_requested_order_otherwise_the_models(rules):
    y, z = tensor("y", "FP32", 1), tensor("z", "FP32", 1)

    assert rules.select(request(outputs=("z", "y")), (y, z)) == (z, y)
    assert rules.select(request(), (z, y)) == (y, z)
    assert RequestRules((), (), dynamic=True).select(request(), (z, y)) == (z, y)


def test_an_optional_output_is_given_when_it_is_asked_for():
    y, z = tensor("y", "FP32", 1), tensor("z", "FP32", 1)
    optional = TensorSpec("z", Datatype.FP32, (-1,), optional=True)
    rules = RequestRules(INPUTS, (OUTPUTS[0], optional), dynamic=False)

    assert rules.select(request(), (y,)) == rules.select(request(), (z, y)) == (y,)
    assert rules.select(request(outputs=("z",)), (y, z)) == (z,)


def test_a_model_without_a_requested_output_fails(rules):
    with pytest.raises(ModelFailed, match="the model returned no output 'z', only 'y'"):
        rules.select(request(), (tensor("y", "FP32", 1),))


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
def test_every_shape_begins_with_the_batch(shapes, expected):
    specs = [TensorSpec("t", Datatype.FP32, shape) for shape in shapes]

    assert has_batch(specs, []) is expected
