"""Proves that a graph processes each row of a batch independently, and limits the cost of a row.

Graph -> analyze() -> Analysis(obstacle, inline_rows)

The analysis follows the batch dimension from the inputs to the outputs. For each tensor, it knows
whether it is the same for every batch, or has one dimension along which element i depends only on
row i of the inputs. Every operator needs a rule in ``graph.operators``. An operator without one,
or one that moves data along the batch dimension, ends the proof. A graph without a proof is not
batched, so a missing rule costs throughput but never correctness. Pure.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from moorage_runtime.backends.onnx.graph.file import Graph, Node, TensorData
from moorage_runtime.backends.onnx.graph.operators import Call, Mixes, Value, compute

# A shorter run costs less than the transfer to a thread and back, about three times 50 us.
INLINE_SECONDS: Final = 150e-6
# Conservative costs on one core: a kernel call, a multiply-add, any other element.
_NODE_SECONDS: Final = 2e-6
_PRODUCT_SECONDS: Final = 0.5e-9
_ELEMENT_SECONDS: Final = 5e-9


class Analysis(msgspec.Struct, frozen=True):
    """The result of the analysis.

    Attributes:
        obstacle: Why its rows may influence each other; "" if they provably do not.
        inline_rows: Rows of the largest request that provably runs in less than INLINE_SECONDS; 0
            without such a bound.
    """

    obstacle: str
    inline_rows: int = 0


def analyze(graph: Graph, outputs: frozenset[str] | None = None) -> Analysis:
    """Follow the batch dimension through a graph.

    Args:
        graph: The model's graph.
        outputs: Outputs that the server offers; None for all.
    """
    try:
        return _prove(graph, [o for o in graph.outputs if outputs is None or o in outputs])
    except Mixes as mixes:
        return Analysis(mixes.reason)


def _prove(graph: Graph, outputs: list[str]) -> Analysis:
    version = graph.opsets.get("")
    if version is not None and version < 7:
        raise Mixes(f"the graph uses operator set {version}: must be 7 or newer")
    values = {name: _constant(tensor) for name, tensor in graph.initializers.items()}
    for name, shape in graph.inputs.items():
        if not shape:
            raise Mixes(f"input '{name}' has no batch dimension")
        dims = (None, *(size if size >= 0 else None for size in shape[1:]))
        values[name] = Value(dims, 0)
    cost = _Cost()
    for node in _needed(graph, outputs):
        try:
            found = compute(_call(node, values, graph.opsets))
        except Mixes as mixes:
            raise Mixes(f"{_title(node)}: {mixes.reason}") from None
        named = {name: value for name, value in zip(node.outputs, found, strict=False) if name}
        values.update(named)
        cost.add(node, [values[name] for name in node.inputs if name], list(named.values()))
    for name in outputs:
        value = values.get(name)
        if value is None or value.at != 0:
            raise Mixes(f"output '{name}' has no batch dimension in front")
    if not outputs or not graph.inputs:
        raise Mixes("the graph has no inputs or no outputs")
    return Analysis("", cost.rows_within(INLINE_SECONDS))


def _needed(graph: Graph, outputs: list[str]) -> list[Node]:
    """The nodes that the outputs depend on; ONNX Runtime removes the others."""
    wanted = set(outputs)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            nodes.append(node)
    return nodes[::-1]


def _call(node: Node, values: Mapping[str, Value], opsets: Mapping[str, int]) -> Call:
    inputs: list[Value | None] = []
    for name in node.inputs:
        if name and name not in values:
            raise Mixes(f"its input '{name}' has a type that is not analyzed")
        inputs.append(values[name] if name else None)
    return Call(node, inputs, opsets.get(node.domain, 0))


def _constant(tensor: TensorData) -> Value:
    return Value(tensor.dims, None, tensor.elements)


def _title(node: Node) -> str:
    operator = f"{node.domain}.{node.operator}" if node.domain else node.operator
    return f"node '{node.name}' ({operator})" if node.name else f"operator {operator}"


class _Cost:
    """The maximum duration of a run in seconds: a fixed part and a part per row."""

    def __init__(self) -> None:
        self._fixed = 0.0
        self._row = 0.0
        self._is_bounded = True

    def add(self, node: Node, inputs: list[Value], outputs: list[Value]) -> None:
        self._fixed += _NODE_SECONDS
        elements = 0
        for value in [*(value for value in inputs if value.at is not None), *outputs]:
            count = _count(value)
            if count is None:
                self._is_bounded = False
                return
            elements += count
        products = _products(node, inputs, outputs)
        if products is None:
            self._is_bounded = False
            return
        seconds = elements * _ELEMENT_SECONDS + products * _PRODUCT_SECONDS
        if any(value.at is not None for value in outputs):
            self._row += seconds
        else:
            self._fixed += seconds

    def rows_within(self, seconds: float) -> int:
        """The maximum number of rows for a run of this duration; 0 without a bound."""
        left = seconds - self._fixed
        if not self._is_bounded or left <= 0:
            return 0
        return int(left / max(self._row, _ELEMENT_SECONDS))


def _count(value: Value) -> int | None:
    """Number of elements, for a batch those of one row; None if it depends on the request."""
    count = 1
    for place, size in enumerate(value.dims or ()):
        if place == value.at:
            continue
        if size is None:
            return None
        count *= size
    return None if value.dims is None else count


def _products(node: Node, inputs: list[Value], outputs: list[Value]) -> int | None:
    """Multiplications of an operator that multiplies by weights, for a batch those of one row;
    None if it depends on the request.
    """
    if node.domain:
        # in a forest, at most every node is visited; in other models, every coefficient is used
        sizes = [len(a) for a in node.attributes.values() if isinstance(a, tuple)]
        return 10 * sum(sizes)
    if node.operator in {"MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "Einsum"}:
        first = _count(outputs[0]) or 1
        return first * max(size or 1 for value in inputs for size in value.dims or (1,))
    if node.operator in {"GRU", "LSTM", "RNN"}:
        # each step uses every weight; the input is [steps, rows, features]
        steps, *weights = inputs[0].shape[0], _count(inputs[1]), _count(inputs[2])
        known = [size for size in weights if size is not None]
        return steps * sum(known) if steps is not None and known == weights else None
    if "Conv" in node.operator:
        # each output channel has its own part of the weights
        weights = max(_count(value) or 1 for value in inputs if value.at is None)
        channels = outputs[0].shape[1] or 1
        return (_count(outputs[0]) or 1) * (weights // channels + 1)
    return 0
