import numpy as np
import pytest

from moorage_runtime.execution.request_size import size_of
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor


@pytest.mark.parametrize(
    ("tensor", "size"),
    [
        (Tensor("x", Datatype.FP32, np.zeros((2, 3), np.float32)), 24),
        (Tensor("x", Datatype.BYTES, np.array([b"abc", b""], np.object_)), 19),
        (Tensor("x", Datatype.BYTES, np.array([b""] * 10_000, np.object_)), 720_000),
    ],
)
def test_the_size_of_a_request(tensor, size):
    assert size_of(InferRequest("m", "", (tensor,))) == size
