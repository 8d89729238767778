"""Indexes that a graph computes: a run on a GPU refuses what a run on the CPU refuses."""

import os

import numpy as np
import pytest

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.onnx import providers
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.onnx.device import Device
from moorage_runtime.values.errors import InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor
from support.onnx_indexes import COMPUTED, problem_on_cpu, session, write

pytestmark = pytest.mark.skipif(os.environ.get("GPU") != "1", reason="needs a GPU: make gpu")


@pytest.fixture(scope="module")
def backend() -> OnnxBackend:
    providers.check_installed("cuda")
    return OnnxBackend(Device(lambda: pytest.fail("the GPU no longer answers")))


@pytest.mark.parametrize("nodes", COMPUTED)
def test_a_gpu_answers_what_the_cpu_answers(backend, nodes, tmp_path):
    path = write(tmp_path / "model.onnx", nodes)
    model = backend.load(ModelSource("m", "1", path))
    found = set()
    for first in range(-7, 6):
        for second in range(-7, 6):
            ids = np.array([[0, 0], [first, second]])
            is_refused = problem_on_cpu(path, {"ids": ids})
            found.add(is_refused)
            request = InferRequest("m", "1", (Tensor("ids", Datatype.INT64, ids),))
            if is_refused:
                with pytest.raises((InvalidRequest, ModelFailed)):
                    model.infer(request)
            else:
                (y,) = model.infer(request)
                assert (y.array == session(path).run(["y"], {"ids": ids})[0]).all(), ids
    assert found == {False, True}
