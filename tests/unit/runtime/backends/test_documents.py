"""The examples in docs/reference/model-repository.md work unchanged."""

import re
from pathlib import Path

import numpy as np

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.python.model import PythonBackend
from moorage_runtime.repository.contents import config
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor

PAGE = (Path(__file__).resolve().parents[4] / "docs/reference/model-repository.md").read_text()


def block(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_model_yaml_is_read_and_names_every_field_but_two():
    read = config.parse(block("yaml").encode())

    fields = set(config.ModelConfig.__struct_fields__)
    named = {field for field in fields if f"\n{field}:" in f"\n{block('yaml')}"}
    assert read.signatures["classify"].method == "classify"
    assert fields - named == {"backend", "platform"}


def test_the_python_model_doubles(tmp_path):
    (tmp_path / "model.py").write_text(block("python"))
    model = PythonBackend().load(ModelSource("m", "1", tmp_path / "model.py"))
    x = Tensor("x", Datatype.FP32, np.array([1.5], np.float32))

    (y,) = model.infer(InferRequest("m", "1", (x,)))

    assert y.array.tolist() == [3.0]
