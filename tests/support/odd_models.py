"""Unusual models that the vectors do not cover, for tests of single requirements."""

import json
from pathlib import Path

_ECHO = """\
class Echo(PythonModel):
    def predict(self, inputs, request):
        return {tensor.name: tensor for tensor in request.inputs}
"""
_FAILS = """\
class Fails(PythonModel):
    inputs = [("x", "BYTES", [1])]
    outputs = [("y", "BYTES", [1])]

    def predict(self, inputs, request):
        open("/a/secret/path")
"""
_FAILS_LATER = """\
class FailsLater(PythonModel):
    def stream(self, inputs, request):
        yield {"y": [b"first"]}
        raise RuntimeError("the second part failed")
"""
_VERSION = """\
class Version(PythonModel):
    inputs = [("x", "FP32", [-1])]
    outputs = [("y", "BYTES", [1])]

    def load(self, context):
        self.version = context.version

    def predict(self, inputs, request):
        return {"y": [self.version.encode()]}
"""
_PARAMETERS = """\
import json


class Parameters(PythonModel):
    inputs = [("x", "FP32", [-1])]
    outputs = [("seen", "BYTES", [1])]

    def predict(self, inputs, request):
        return {"seen": [json.dumps(dict(request.parameters), sort_keys=True).encode()]}
"""
_SCORES = """\
class Scores(PythonModel):
    inputs = [("x", "FP32", [-1])]
    outputs = [("scores", "FP32", [-1, 2]), ("classes", "BYTES", [-1, 2])]

    def predict(self, inputs, request):
        x = inputs["x"]
        return {"scores": [[v, 2 * v] for v in x], "classes": [["a", "b"]] * len(x)}
"""
_SCORES_CONFIG = """\
signatures:
  serving_default:
    method: classify
    inputs: {x: x}
    outputs: {scores: scores}
  labels:
    method: classify
    inputs: {x: x}
    outputs: {classes: classes}
"""
_RAW = """\
class Raw(PythonModel):
    inputs = [("x", "FP32", [-1, 2, -1])]
    outputs = [("y", "FP32", [-1, 2, -1])]

    def predict(self, inputs, request):
        return {"y": inputs["x"]}
"""
_HALF_TYPES = """\
class HalfTypes(PythonModel):
    inputs = [("x", "BF16", [-1])]
    outputs = [("y", "BF16", [-1])]

    def predict(self, inputs, request):
        return {"y": inputs["x"]}
"""
_UNDECODABLE = """\
class Undecodable(PythonModel):
    inputs = [("x", "FP32", [-1])]
    outputs = [("y", "BYTES", [1])]

    def predict(self, inputs, request):
        return {"y": [b"\\xff\\x00"]}
"""
# name, version folder, source, model.yaml
_MODELS = (
    ("echo", "1", _ECHO, "default: true\n"),
    ("zwei teile:ü", "1", _ECHO, ""),
    ("a-b", "1", _ECHO, ""),
    ("a", "2", _VERSION, ""),
    ("fails", "1", _FAILS, ""),
    ("fails_later", "1", _FAILS_LATER, ""),
    ("versions", "9", _VERSION, "labels: {stable: '9'}\n"),
    ("versions", "10", _VERSION, "labels: {stable: '9'}\n"),
    ("named", "v9", _VERSION, ""),
    ("named", "v10", _VERSION, ""),
    ("parameters", "1", _PARAMETERS, ""),
    ("scores", "1", _SCORES, _SCORES_CONFIG),
    ("raw", "1", _RAW, "batching: true\n"),
    ("raw_two_variable", "1", _RAW, "batching: false\n"),
    ("half_types", "1", _HALF_TYPES, ""),
    ("undecodable", "1", _UNDECODABLE, ""),
)


def write(root: Path) -> Path:
    """Write every model below the folder and return the folder."""
    for name, version, source, config in _MODELS:
        folder = root / name / version
        folder.mkdir(parents=True)
        header = "from moorage_runtime.backends.python import PythonModel\n\n\n"
        (folder / "model.py").write_text(header + source)
        if config:
            (root / name / "model.yaml").write_text(config)
    return root


def tensor(name: str, datatype: str, shape: list[int], data: list[object]) -> dict[str, object]:
    """One tensor as JSON has it."""
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def request(*inputs: dict[str, object], **members: object) -> bytes:
    """An inference request as JSON; NaN and infinities are unquoted."""
    return json.dumps({**members, "inputs": inputs}).encode()
