"""A model whose runs wait until they are released, so that a test can keep requests in flight."""

import json
from pathlib import Path

CODE = """\
import pathlib
import time

from moorage_runtime.backends.python import PythonModel


class Held(PythonModel):
    inputs = [("x", "FP32", [1])]
    outputs = [("x", "FP32", [1])]

    def load(self, context):
        self.go = pathlib.Path(context.parameters["go"])

    def predict(self, inputs, request):
        while not self.go.exists():
            time.sleep(0.02)
        return {"x": inputs["x"]}
"""
INPUT = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}


def write_held(folder: Path, name: str) -> Path:
    """A repository with the model; its runs wait for the file `go` in the folder."""
    model = folder / "models" / name
    model.mkdir(parents=True)
    (model / "model.py").write_text(CODE)
    (model / "model.yaml").write_text(json.dumps({"parameters": {"go": str(folder / "go")}}))
    return model.parent
