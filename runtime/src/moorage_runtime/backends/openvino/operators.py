"""Works around OpenVINO bugs in single operators of a model, before it is compiled.

    reader's result -> repaired() -> compiled model

- OpenVINO 2026.4 copies text as if it were numbers in some operators, such as StridedSlice and
  Split. The copies share memory, which ends the process when it is freed. Operators of text are
  therefore only those that were tested.
- Unique without sorting returns the wrong values if its third output, the position of each
  element among them, is not used. It is therefore used.
"""

from typing import Final

from moorage_runtime.backends.openvino.library import ov

# Operators that copy text element by element, or not at all.
_TEXT_OPERATORS: Final = frozenset(
    {
        "Concat",
        "Constant",
        "Gather",
        "Parameter",
        "Reshape",
        "Result",
        "ShapeOf",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)
_POSITIONS: Final = 2


class NotSupported(Exception):
    """The library would end the process."""


def repaired(model: ov.Model) -> ov.Model:
    """The model itself, with operators that return the right values.

    Raises:
        NotSupported: An operator of text would end the process.
    """
    unused: list[ov.Node] = []
    for node in model.get_ops():
        kind = node.get_type_name()
        if kind not in _TEXT_OPERATORS and _has_text(node):
            raise NotSupported(f"operator {kind} '{node.friendly_name}' does not support text")
        if kind == "Unique" and not node.get_attributes()["sorted"]:
            positions = node.output(_POSITIONS)
            if not positions.get_target_inputs():
                unused.append(ov.opset13.result(positions))
    if unused:
        # after the others, which have the same numbers as before
        model.add_results(unused)
        model.validate_nodes_and_infer_types()
    return model


def _has_text(node: ov.Node) -> bool:
    ports = [*node.inputs(), *node.outputs()]
    return any(port.get_element_type() == ov.Type.string for port in ports)
