"""A running server that the attacks share, with models that count, echo and wait."""

from collections.abc import Iterator

import pytest

from support.runtime import Runtime, serving

MODEL = """
import time
import numpy as np
from moorage_runtime.backends.python import PythonModel


class Model(PythonModel):
    inputs = [("x", "{datatype}", [-1])]
    outputs = [("n", "INT64", [-1])]

    def predict(self, inputs, request):
        {wait}
        return {{"n": {answer}}}
"""
SIZE = 'np.array([inputs["x"].size])'
MODELS = {
    "numbers": ("FP32", "pass", SIZE),
    "strings": ("BYTES", "pass", SIZE),
    "slow": ("FP32", "time.sleep(0.02)", SIZE),
    "large": ("FP32", "pass", "np.zeros(2_000_000, np.int64)"),
}


@pytest.fixture(scope="session")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, (datatype, wait, answer) in MODELS.items():
        (folder / name).mkdir()
        (folder / name / "model.py").write_text(
            MODEL.format(datatype=datatype, wait=wait, answer=answer)
        )
    return folder


@pytest.fixture(scope="session")
def server(repository) -> Iterator[Runtime]:
    with serving(repository) as runtime:
        yield runtime
