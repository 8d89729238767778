"""Numbers of a request in the datatype of a column: refused if their value would change."""

import numpy as np
import pytest

from moorage_runtime.backends.tables.conversion import converted
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor


def given(values, datatype) -> Tensor:
    return Tensor("age", datatype, np.array(values, NUMPY_DTYPE[datatype]))


@pytest.mark.parametrize(
    ("values", "of", "to"),
    [
        ([3.0, -0.0], Datatype.FP64, Datatype.INT64),
        ([255.0, 0.0], Datatype.FP16, Datatype.UINT8),
        ([-(2.0**63)], Datatype.FP64, Datatype.INT64),
        ([255, 0], Datatype.INT64, Datatype.UINT8),
        ([2**63 - 1], Datatype.UINT64, Datatype.INT64),
        ([True, False], Datatype.BOOL, Datatype.INT8),
        ([0, 1], Datatype.UINT8, Datatype.BOOL),
        ([0.0, 1.0], Datatype.FP32, Datatype.BOOL),
        ([0.5, np.nan], Datatype.FP16, Datatype.FP64),
        ([-7], Datatype.INT64, Datatype.FP32),
    ],
)
def test_a_value_that_fits_is_converted(values, of, to):
    array = converted(given(values, of), to)

    assert array.dtype == NUMPY_DTYPE[to]
    assert np.array_equal(array, values, equal_nan=to is Datatype.FP64)


@pytest.mark.parametrize(
    ("values", "of", "to", "message"),
    [
        (
            [1.0, 3.9],
            Datatype.FP64,
            Datatype.INT32,
            r"3\.9: must be an integer from -2147483648 to 2147483647, the range of INT32",
        ),
        ([np.nan], Datatype.FP32, Datatype.INT64, "'age' contains nan: must be an integer from"),
        ([-np.inf], Datatype.FP16, Datatype.INT64, "'age' contains -inf: must be an integer"),
        ([2.0**63], Datatype.FP64, Datatype.INT64, r"contains 9\.223372036854776e\+18: must"),
        ([256.0], Datatype.FP16, Datatype.UINT8, r"contains 256\.0: must be an integer from 0 to"),
        ([300], Datatype.INT64, Datatype.UINT8, "contains 300: must be an integer from 0 to 255"),
        ([-1], Datatype.INT8, Datatype.UINT64, "contains -1: must be an integer from 0 to 1844"),
        ([2**63], Datatype.UINT64, Datatype.INT64, "contains 9223372036854775808: must be an int"),
        ([2], Datatype.UINT8, Datatype.BOOL, "contains 2: must be true, false, 0 or 1, as BOOL"),
        ([0.5], Datatype.FP32, Datatype.BOOL, r"contains 0\.5: must be true, false, 0 or 1"),
    ],
)
def test_a_value_that_would_change_is_refused(values, of, to, message):
    with pytest.raises(InvalidRequest, match=message):
        converted(given(values, of), to)


def test_a_number_beyond_fp32_is_infinite():
    assert converted(given([1e300], Datatype.FP64), Datatype.FP32).tolist() == [np.inf]


def test_an_array_of_the_datatype_is_not_copied():
    tensor = given([1, 2], Datatype.INT16)

    assert converted(tensor, Datatype.INT16) is tensor.array
