"""A tensor that a model makes itself has the array of its datatype."""

import numpy as np
import pytest

from moorage_runtime.backends.returned import tensor_of
from moorage_runtime.values.errors import ModelFailed
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

TEXT = np.array(["é", b"b"], np.object_)


@pytest.mark.parametrize(
    ("datatype", "array", "expected"),
    [
        (Datatype.FP32, np.array([0.5, 1.0]), np.array([0.5, 1.0], np.float32)),
        (Datatype.BYTES, TEXT, np.array(["é".encode(), b"b"], np.object_)),
        (Datatype.BF16, np.array([7], np.uint16), np.array([7], np.uint16)),
        (Datatype.INT32, np.arange(4, dtype=np.int32)[::2], np.array([0, 2], np.int32)),
        (Datatype.INT64, np.array(5), np.array(5)),
    ],
)
def test_its_array_is_converted(datatype, array, expected):
    given = Tensor("t", datatype, array, {"k": 1})

    tensor = tensor_of("y", given, None)

    assert (tensor.name, tensor.datatype, tensor.parameters) == ("y", datatype, {"k": 1})
    assert tensor.array.dtype == expected.dtype
    assert tensor.array.flags.c_contiguous
    assert tensor.array.tolist() == expected.tolist()


def test_an_array_that_does_not_fit_is_an_error_of_the_model():
    given = Tensor("t", Datatype.INT32, np.array([0.5]))

    with pytest.raises(ModelFailed, match=r"output 'y' .* float64: must be INT32"):
        tensor_of("y", given, None)


@pytest.mark.parametrize("datatype", Datatype)
@pytest.mark.parametrize(("value", "shape"), [([], (0,)), ([[], []], (2, 0))])
def test_an_empty_list_has_the_declared_datatype(datatype, value, shape):
    tensor = tensor_of("y", value, datatype)

    assert (tensor.datatype, tensor.array.shape) == (datatype, shape)
    assert tensor.array.dtype == NUMPY_DTYPE[datatype]


def test_text_of_variable_length_becomes_bytes():
    text = np.array(["é", "longer"], np.dtypes.StringDType())

    assert tensor_of("y", text, None).array.tolist() == ["é".encode(), b"longer"]
