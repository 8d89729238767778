"""Keeps the division of integers from ending the process. Pure.

    bytes of a model -> guarded() -> bytes of a model with the same results, or None

ONNX Runtime divides with the instruction of the processor, which traps on x86-64 if Div or Mod
divides the lowest INT32 or INT64 by -1: one request would end the server and all its models. So a
division by -1 becomes a division of the same dividend by 1, whose result is negated. That wraps
around as the other arithmetic on integers does.

A division stays as it is if its type is known to be another one, or if its divisor is a constant
without -1. A type that cannot be determined counts as an integer, which costs time but not
correctness: from operator set 15 on, the divisor and the quotient are multiplied by 1 or -1, which
is exact in every type. Before that, they are negated, which ONNX Runtime cannot do in each type.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from moorage_runtime.backends.onnx.graph.encoding import field, text_field
from moorage_runtime.backends.onnx.graph.file import (
    Graph,
    Node,
    TensorData,
    fields,
    messages,
    node_of,
    opset_of,
    tensor_of,
    text_of,
)

__all__ = ["NotGuarded", "guarded"]

Field = tuple[int, int | bytes | memoryview]

_DIVIDING: Final = frozenset({"Div", "Mod"})
_OPERANDS: Final = 2
# Fields of ModelProto, of GraphProto, of FunctionProto, of NodeProto and of AttributeProto.
_GRAPH_OF_MODEL, _FUNCTION_OF_MODEL = 7, 25
_OF_GRAPH, _INITIALIZERS = 1, 5
_OF_FUNCTION, _OPSETS = 7, 9
# The fields with the types of tensors, by the field with the nodes.
_DECLARED: Final = {_OF_GRAPH: (11, 12, 13), _OF_FUNCTION: (12,)}
_ATTRIBUTES: Final = 5
_VALUE, _GRAPHS = 5, (6, 11)
# TensorProto.DataType, and those that trap or may do so.
_UNKNOWN, _INT32, _INT64, _DOUBLE = 0, 6, 7, 11
_TRAPPING: Final = frozenset({_UNKNOWN, _INT32, _INT64})
# The first operator set with the operator Where.
_OLDEST: Final = 9
# The first one with CastLike.
_CAST_LIKE: Final = 15
_ML: Final = "ai.onnx.ml"
_MICROSOFT: Final = "com.microsoft"


def _names(domain: str, text: str) -> frozenset[tuple[str, str]]:
    return frozenset((domain, name) for name in text.split())


# Operators whose first result is never INT32 or INT64.
_OTHERS: Final = (
    _names(
        "",
        "Acos Acosh And Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Ceil Celu "
        "Conv ConvTranspose Cos Cosh DequantizeLinear Dropout DynamicQuantizeLinear Elu Equal Erf "
        "Exp Floor GRU Gelu GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual "
        "GroupNormalization HardSigmoid HardSwish Hardmax InstanceNormalization IsInf IsNaN LRN "
        "LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization LpPool "
        "MaxPool Mean MeanVarianceNormalization Mish Not Or QLinearConv QLinearMatMul "
        "QuantizeLinear RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform "
        "RandomUniformLike Reciprocal ReduceLogSum ReduceLogSumExp RoiAlign RotaryEmbedding Round "
        "Selu Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt Sum Swish Tan Tanh "
        "ThresholdedRelu Xor",
    )
    | _names(
        _ML,
        "FeatureVectorizer LinearRegressor Normalizer SVMRegressor Scaler TreeEnsembleRegressor",
    )
    | _names(
        _MICROSOFT,
        "Attention BiasGelu DynamicQuantizeMatMul EmbedLayerNormalization FastGelu FusedConv "
        "FusedGemm FusedMatMul Gelu GroupQueryAttention MatMulIntegerToFloat MatMulNBits "
        "MultiHeadAttention QAttention QuickGelu RotaryEmbedding SimplifiedLayerNormalization "
        "SkipLayerNormalization SkipSimplifiedLayerNormalization",
    )
)
# Operators whose second result, the scores of the classes, is floating point.
_CLASSIFIERS: Final = _names(_ML, "LinearClassifier SVMClassifier TreeEnsembleClassifier")
# Operators whose first result has the type of the first input.
_FIRST: Final = _names(
    "",
    "Abs Add Clip Compress Concat CumProd CumSum DepthToSpace Div Einsum Expand Flatten Gather "
    "GatherElements GatherND Gemm GridSample Identity MatMul Max Min Mod Mul Neg PRelu Pad Pow "
    "Range ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare "
    "Relu Reshape Resize ReverseSequence Scatter ScatterElements ScatterND Shrink Sign Slice "
    "SpaceToDepth Split Squeeze Sub Tile TopK Transpose Trilu Unique Unsqueeze Upsample",
)
# Operators that have it from the second input.
_SECOND: Final = _names("", "CastLike Where")
_ALL_RESULTS: Final = _names("", "Split")


class NotGuarded(Exception):
    """A division cannot be replaced."""


def guarded(model: memoryview, graph: Graph) -> bytes | None:
    """Replace the divisions of integers that may end the process.

    Args:
        model: A serialized ``ModelProto``.
        graph: What was read of it.

    Returns:
        The model with other divisions; None if it has none that may end the process.

    Raises:
        NotGuarded: The operator set has no operators that could replace a division.
    """
    operators = {operator for node in graph.nodes for operator in (node.operator, *node.within)}
    if not _DIVIDING & operators.union(*graph.functions.values()):
        return None
    guard = _Guard()
    parts: list[Field] = []
    for number, value in fields(model):
        replaced: int | bytes | memoryview = value
        if number == _GRAPH_OF_MODEL and isinstance(value, memoryview):
            known = _Known(graph.opsets.get("", 0), set(), {})
            replaced = guard.body(value, _OF_GRAPH, known)
        elif number == _FUNCTION_OF_MODEL and isinstance(value, memoryview):
            replaced = guard.function(value)
        parts.append((number, replaced))
    return _message(parts) if guard.count else None


class _Known(NamedTuple):
    """What is known about the tensors that a node can use.

    Attributes:
        opset: Version of ONNX's own operators.
        others: Names of those that are neither INT32 nor INT64.
        constants: Constants by name.
    """

    opset: int
    others: set[str]
    constants: dict[str, TensorData]


class _Guard:
    """Replaces the divisions in one model.

    Attributes:
        count: How many were replaced.
    """

    def __init__(self) -> None:
        self.count = 0

    def function(self, data: memoryview) -> bytes | memoryview:
        """Replace the divisions in a function.

        The types of its parameters depend on the call, so they are unknown.
        """
        opsets = dict(map(opset_of, messages(data, _OPSETS)))
        return self.body(data, _OF_FUNCTION, _Known(opsets.get("", 0), set(), {}))

    def body(self, data: memoryview, nodes: int, outer: _Known) -> bytes | memoryview:
        """Replace the divisions in a graph or function; the same bytes if it has none.

        Args:
            data: The message.
            nodes: The number of the field with the nodes.
            outer: What is known about the tensors outside.
        """
        before = self.count
        known = _Known(outer.opset, set(outer.others), dict(outer.constants))
        if nodes == _OF_GRAPH:
            for each in messages(data, _INITIALIZERS):
                tensor = tensor_of(each)
                known.constants[tensor.name] = tensor
                if _is_other(each, 2):
                    known.others.add(tensor.name)
        for number in _DECLARED[nodes]:
            for each in messages(data, number):
                known.others.update(_others(each))
        parts: list[Field] = []
        for number, value in fields(data):
            if number == nodes and isinstance(value, memoryview):
                parts += ((number, each) for each in self._node(value, known))
            else:
                parts.append((number, value))
        return data if self.count == before else _message(parts)

    def _node(self, data: memoryview, known: _Known) -> list[bytes | memoryview]:
        node = node_of(data)
        replaced: list[bytes | memoryview] = [data]
        if node.has_graph:
            replaced = [self._with_graphs(data, known)]
        elif _may_trap(node, known):
            replaced = self._division(node, data, known.opset)
        _learn(node, data, known)
        return replaced

    def _with_graphs(self, data: memoryview, known: _Known) -> bytes:
        """A node with the divisions in the graphs of its attributes replaced."""
        parts: list[Field] = []
        for number, value in fields(data):
            if number == _ATTRIBUTES and isinstance(value, memoryview):
                parts.append((number, self._attribute(value, known)))
            else:
                parts.append((number, value))
        return _message(parts)

    def _attribute(self, data: memoryview, known: _Known) -> bytes | memoryview:
        before = self.count
        parts: list[Field] = []
        for number, value in fields(data):
            if number in _GRAPHS and isinstance(value, memoryview):
                parts.append((number, self.body(value, _OF_GRAPH, known)))
            else:
                parts.append((number, value))
        # a number in four bytes, which would become a field with a length, has no graph
        return data if self.count == before else _message(parts)

    def _division(self, node: Node, data: memoryview, opset: int) -> list[bytes | memoryview]:
        """The nodes in place of a division."""
        if opset < _OLDEST:
            raise NotGuarded(
                f"operator {node.operator} '{node.name}' ends the process if it divides the "
                f"lowest integer by -1, which can only be prevented from operator set {_OLDEST} "
                f"on: convert the model, or cast to floating point before the division"
            )
        self.count += 1
        name = f"moorage_division_{self.count}"
        if opset >= _CAST_LIKE:
            return _multiplied(node, data, name)
        return _negated(node, data, name)


def _multiplied(node: Node, data: memoryview, name: str) -> list[bytes | memoryview]:
    """A division whose divisor and quotient are multiplied by -1 if the divisor is -1.

    Args:
        node: The division.
        data: Its message.
        name: Begins the names of new tensors.
    """
    dividend, divisor = node.inputs
    minus, wide, is_minus, one, factor, typed, positive, quotient = _steps(name, 8)
    replaced: list[bytes | memoryview] = [
        _encoded("Constant", (), minus, _MINUS_ONE_DOUBLE),
        # every integer type; INT64 would turn the highest UINT64 into -1
        _encoded("Cast", (divisor,), wide, _TO_DOUBLE),
        _encoded("Equal", (wide, minus), is_minus),
        _encoded("Neg", (minus,), one),
        _encoded("Where", (is_minus, minus, one), factor),
        _encoded("CastLike", (factor, divisor), typed),
        _encoded("Mul", (divisor, typed), positive),
    ]
    if node.operator == "Mod":  # the remainder of a division by 1 or -1 is 0
        return [*replaced, _renamed(data, (dividend, positive), node.outputs[0])]
    return [
        *replaced,
        _renamed(data, (dividend, positive), quotient),
        _encoded("Mul", (quotient, typed), node.outputs[0]),
    ]


def _negated(node: Node, data: memoryview, name: str) -> list[bytes | memoryview]:
    """A division whose divisor and quotient are negated if the divisor is -1; as above."""
    dividend, divisor = node.inputs
    minus, wide, is_minus, negated, positive, quotient, negative = _steps(name, 7)
    replaced: list[bytes | memoryview] = [
        _encoded("Constant", (), minus, _MINUS_ONE),
        # to a type that Equal has in every operator set
        _encoded("Cast", (divisor,), wide, _TO_INT64),
        _encoded("Equal", (wide, minus), is_minus),
        _encoded("Neg", (divisor,), negated),
        _encoded("Where", (is_minus, negated, divisor), positive),
    ]
    if node.operator == "Mod":
        return [*replaced, _renamed(data, (dividend, positive), node.outputs[0])]
    return [
        *replaced,
        _renamed(data, (dividend, positive), quotient),
        _encoded("Neg", (quotient,), negative),
        _encoded("Where", (is_minus, negative, quotient), node.outputs[0]),
    ]


def _steps(name: str, count: int) -> Iterator[str]:
    """Names of new tensors."""
    return (f"{name}_{step}" for step in range(count))


def _may_trap(node: Node, known: _Known) -> bool:
    """Whether a node may divide the lowest integer by -1."""
    if node.domain or node.operator not in _DIVIDING or len(node.inputs) != _OPERANDS:
        return False
    # fmod computes with floating point
    if node.attributes.get("fmod") or known.others & {*node.inputs, *node.outputs}:
        return False
    constant = known.constants.get(node.inputs[1])
    return constant is None or constant.elements is None or -1 in constant.elements


def _learn(node: Node, data: memoryview, known: _Known) -> None:
    """Note what is known about the results of a node."""
    kind = node.domain, node.operator
    is_other = (
        kind in _OTHERS
        or (kind in _FIRST and not known.others.isdisjoint(node.inputs[:1]))
        or (kind in _SECOND and not known.others.isdisjoint(node.inputs[1:]))
    )
    if kind == ("", "Cast"):
        is_other = node.attributes.get("to") not in _TRAPPING
    elif kind in {("", "Constant"), ("", "ConstantOfShape")}:
        attributes = list(messages(data, _ATTRIBUTES))
        tensors = [each for one in attributes for each in messages(one, _VALUE)]
        # without a value, ConstantOfShape is FP32
        is_other = not attributes or any(_is_other(each, 2) for each in tensors)
        if node.operator == "Constant":
            known.constants.update((node.outputs[0], tensor_of(each)) for each in tensors)
    if is_other:
        known.others.update(node.outputs if kind in _ALL_RESULTS else node.outputs[:1])
    if kind in _CLASSIFIERS:
        known.others.update(node.outputs[1:])


def _others(data: memoryview) -> Iterator[str]:
    """The name of a ``ValueInfoProto`` whose type is neither INT32 nor INT64."""
    for name in map(text_of, messages(data, 1)):
        for type_ in messages(data, 2):
            for tensor in messages(type_, 1):
                if _is_other(tensor, 1):
                    yield name


def _is_other(data: memoryview, type_field: int) -> bool:
    """Whether a message has this field, with a type that is neither INT32 nor INT64."""
    return any(number == type_field and value not in _TRAPPING for number, value in fields(data))


def _encoded(operator: str, inputs: Sequence[str], output: str, attribute: bytes = b"") -> bytes:
    """A serialized ``NodeProto``."""
    parts = [text_field(1, name) for name in inputs]
    parts += [text_field(2, output), text_field(4, operator)]
    return b"".join(parts) + (field(_ATTRIBUTES, attribute) if attribute else b"")


def _renamed(data: memoryview, inputs: Sequence[str], output: str) -> bytes:
    """A ``NodeProto`` with other inputs and another output."""
    others = [part for part in fields(data) if part[0] not in (1, 2)]
    return (
        b"".join(text_field(1, name) for name in inputs) + text_field(2, output) + _message(others)
    )


def _message(parts: Iterable[Field]) -> bytes:
    return b"".join(field(number, value) for number, value in parts)


# Attributes ``value``: a tensor without dimensions, in 8 bytes.
_MINUS_ONE: Final = (
    text_field(1, "value") + field(5, field(2, _INT64) + field(9, b"\xff" * 8)) + field(20, 4)
)
_MINUS_ONE_DOUBLE: Final = (
    text_field(1, "value")
    + field(5, field(2, _DOUBLE) + field(9, struct.pack("<d", -1)))
    + field(20, 4)
)
# Attributes ``to``.
_TO_INT64: Final = text_field(1, "to") + field(3, _INT64) + field(20, 2)
_TO_DOUBLE: Final = text_field(1, "to") + field(3, _DOUBLE) + field(20, 2)
