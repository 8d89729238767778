"""Tensors and their datatypes."""

import numpy as np

from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor


def test_the_shape_is_that_of_the_array():
    assert Tensor("x", Datatype.FP32, np.zeros((2, 0, 3), "<f4")).shape == (2, 0, 3)


def test_a_table_of_datatypes_is_read_with_the_names_of_the_protocol():
    assert NUMPY_DTYPE["INT64"] == np.dtype("<i8")
    assert set(NUMPY_DTYPE) == set(Datatype)
