"""Small real models, written to a given path."""

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper


def write_onnx(
    path: Path,
    operator: str = "Identity",
    kind: int = TensorProto.FLOAT,
    dims: Sequence[int | str | None] | None = ("n",),
    **attributes,
) -> None:
    """A model with one operator: x to y; without dims, the graph has no shapes."""
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], **attributes)],
        "graph",
        [helper.make_tensor_value_info("x", kind, dims)],
        [helper.make_tensor_value_info("y", kind, dims)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def write_python(path: Path, body: str) -> None:
    """A model.py with one class `Model`; the body is its indented lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path.write_text(
        "from moorage_runtime.backends.python import PythonModel\n\n\n"
        f"class Model(PythonModel):\n{lines}"
    )
