"""Works around OpenVINO bugs in single operators of a model, before it is compiled.

    reader's result -> repaired() -> compiled model

- OpenVINO 2026.4 copies text as if it were numbers in some operators, such as StridedSlice and
  Split. The copies share memory, which ends the process when it is freed. Operators of text are
  therefore only those that were tested.
- Unique without sorting returns the wrong values if its third output, the position of each
  element among them, is not used. It is therefore used.
- A product of matrices of narrow integers has their datatype, so its sums saturate, although
  TensorFlow sums the products of INT8 in INT32, as layers do that Keras quantized. The product is
  therefore computed with 32 bits.
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
_MOVES: Final = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_NARROW_INTEGERS: Final = (ov.Type.i8, ov.Type.u8, ov.Type.i16, ov.Type.u16)


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
        if kind == "MatMul" and node.get_output_element_type(0) in _NARROW_INTEGERS:
            _widen(node)
    # after the others, which have the same numbers as before
    model.add_results(unused)
    model.validate_nodes_and_infer_types()
    return model


def _widen(product: ov.Node) -> None:
    """Compute a product of matrices with 32 bits."""
    attributes = product.get_attributes()
    factors = (ov.opset13.convert(product.input_value(index), "i32") for index in range(2))
    wide = ov.opset13.matmul(*factors, attributes["transpose_a"], attributes["transpose_b"])
    for target in product.output(0).get_target_inputs():
        target.replace_source_output(wide.output(0))
    _narrow_again(wide, product.get_output_element_type(0).get_type_name())


def _narrow_again(wide: ov.Node, type_name: str) -> None:
    """Convert a product for the operators that need its datatype.

    Between the product and its conversion, the library's reader puts operators that move it.
    """
    for target in wide.output(0).get_target_inputs():
        kind = target.get_node().get_type_name()
        if kind in _MOVES:
            _narrow_again(target.get_node(), type_name)
        elif kind != "Convert":
            target.replace_source_output(ov.opset13.convert(wide, type_name).output(0))


def _has_text(node: ov.Node) -> bool:
    ports = [*node.inputs(), *node.outputs()]
    return any(port.get_element_type() == ov.Type.string for port in ports)
