import numpy as np
import pytest

from moorage_runtime.backends import empty_inputs
from moorage_runtime.values.errors import InvalidRequest, ModelFailed
from moorage_runtime.values.tensors import Datatype, Tensor


def of(name: str, *shape: int) -> Tensor:
    return Tensor(name, Datatype.FP32, np.empty(shape, np.float32))


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ([of("a", 0)], "input 'a' has shape [0]"),
        ([of("a", 2), of("b", 2, 0, 3), of("c", 0)], "input 'b' has shape [2, 0, 3]"),
    ],
)
def test_a_failure_with_an_empty_input_names_the_first_one(
    inputs: list[Tensor], named: str
) -> None:
    fault = empty_inputs.failed("no rows", inputs)

    assert type(fault) is InvalidRequest
    assert fault.message == (
        f"{named}: every dimension must be 1 or more, because the model fails on empty tensors: "
        "no rows"
    )


@pytest.mark.parametrize("inputs", [[], [of("a")], [of("a", 1), of("b", 2, 3)]])
def test_another_failure_is_of_the_model(inputs: list[Tensor]) -> None:
    fault = empty_inputs.failed("no memory", inputs)

    assert type(fault) is ModelFailed
    assert fault.message == "no memory"
    assert empty_inputs.refusal(inputs, "any") is None
