"""Rules of operators that multiply and add: matrix products, convolutions, pooling. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from moorage_runtime.backends.onnx.graph.values import (
    Call,
    Value,
    axis_of,
    broadcast,
    fixed,
    refuse,
    single,
)


def _matmul(call: Call) -> Value:
    return _product(call.input(0), call.input(1))


def _product(first: Value, second: Value) -> Value:
    """A matrix product, which sums over the last dimension of one side and the second to last of
    the other.
    """
    if first.rank < 2 or second.rank < 2:
        return _vector_product(first, second)
    if first.at == first.rank - 1 or second.at == second.rank - 2:
        refuse("it sums over the rows of the batch")
    rows_of_one, columns_of_two = first.at == first.rank - 2, second.at == second.rank - 1
    if (rows_of_one and second.at is not None) or (columns_of_two and first.at is not None):
        refuse("it multiplies rows with rows")
    # a batch dimension among the last two keeps its distance from the end
    leading = broadcast([Value(v.shape[:-2], v.at) for v in (first, second)])
    return Value((*leading.shape, first.shape[-2], second.shape[-1]), leading.at)


def _vector_product(first: Value, second: Value) -> Value:
    """One side is a vector without a batch dimension."""
    if second.rank == 1 and second.at is None and first.rank > 1 and first.at != first.rank - 1:
        return Value(first.shape[:-1], first.at)
    if first.rank == 1 and first.at is None and second.rank > 1:
        if second.at == second.rank - 2:
            refuse("it sums over the rows of the batch")
        last = second.rank - 1
        dims = (*second.shape[:-2], second.shape[-1])
        return Value(dims, last - 1 if second.at == last else second.at)
    return refuse("it multiplies a vector with the batch")


def _gemm(call: Call) -> Value:
    first, second = call.input(0), call.input(1)
    if first.rank != 2 or second.rank != 2:
        refuse("its inputs are not matrices")
    product = _product(
        _turned(first) if call.integer("transA", 0) else first,
        _turned(second) if call.integer("transB", 0) else second,
    )
    if not call.has(2):
        return product
    added = broadcast([product, call.input(2)])
    if added.rank != 2:
        refuse("its bias is not a matrix")
    return added


def _turned(value: Value) -> Value:
    at = None if value.at is None else 1 - value.at
    return Value(value.shape[::-1], at)


def _integer_matmul(call: Call) -> Value:
    """Zero points of the left side may be per row, those of the right side per column."""
    if call.has(2):
        single(call.input(2))
    fixed(call.input(1), *call.given(3))
    return _matmul(call)


def _quantized_matmul(call: Call) -> Value:
    # a, its scale and zero point, b, its scale and zero point, scale and zero point of the result
    single(call.input(1), call.input(2), call.input(6), call.input(7))
    fixed(*call.given(3))
    return _product(call.input(0), call.input(3))


def _convolution(call: Call) -> Value:
    return _convolved(call, call.input(0), call.input(1), call.given(1))


def _quantized_convolution(call: Call) -> Value:
    single(call.input(1), call.input(2), call.input(6), call.input(7))
    return _convolved(call, call.input(0), call.input(3), call.given(1))


def _convolved(call: Call, value: Value, weights: Value, parameters: list[Value]) -> Value:
    fixed(*parameters)
    if value.at != 0 or value.rank < 3:
        refuse("its input is not a batch of images")
    channels = weights.shape[0]
    if call.node.operator == "ConvTranspose":
        groups = call.integer("group", 1)
        channels = None if weights.shape[1] is None else weights.shape[1] * groups
        return Value((None, channels, *[None] * (value.rank - 2)), 0)
    kernel = call.integers("kernel_shape") or weights.shape[2:]
    return Value((None, channels, *_windows(call, value, kernel)), 0)


def pooled(call: Call, value: Value) -> Value:
    """The result of a pooling operator: rows and channels stay, the other dimensions shrink."""
    if value.at is None:
        return Value(None)
    kernel = call.integers("kernel_shape")
    if kernel is None:
        refuse("it has no kernel_shape")
    return Value((None, value.shape[1], *_windows(call, value, kernel)), 0)


def _windows(call: Call, value: Value, kernel: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Number of windows along each dimension of an image; None if unknown."""
    count = value.rank - 2
    strides = call.integers("strides") or (1,) * count
    dilations = call.integers("dilations") or (1,) * count
    pads = call.integers("pads") or (0,) * (2 * count)
    if call.text("auto_pad", "NOTSET") != "NOTSET" or call.integer("ceil_mode", 0):
        return (None,) * count
    if not len(strides) == len(dilations) == len(kernel) == count or len(pads) != 2 * count:
        refuse("its strides, dilations, pads and kernel differ in number")
    sizes: list[int | None] = []
    for place in range(count):
        size, width = value.shape[place + 2], kernel[place]
        if size is None or width is None:
            sizes.append(None)
            continue
        padded = size + pads[place] + pads[place + count]
        sizes.append((padded - dilations[place] * (width - 1) - 1) // strides[place] + 1)
    return tuple(sizes)


def global_pooled(call: Call) -> Value:
    """Rows and channels stay; every other dimension becomes 1."""
    value = call.input(0)
    if value.at != 0 or value.rank < 3:
        refuse("its input is not a batch of images")
    return Value((None, value.shape[1], *[1] * (value.rank - 2)), 0)


def _einsum(call: Call) -> Value:
    left, arrow, right = call.text("equation", "").replace(" ", "").partition("->")
    terms = left.split(",")
    values = call.given()
    if not arrow or "." in left or len(terms) != len(values):
        refuse("its equation is not explicit")
    sizes: dict[str, int | None] = {}
    batch = {
        term[value.at] for term, value in zip(terms, values, strict=True) if value.at is not None
    }
    if len(batch) > 1:
        refuse("it combines tensors whose batch dimensions differ")
    for term, value in zip(terms, values, strict=True):
        if len(term) != value.rank or len(set(term)) != len(term):
            refuse("its equation repeats a dimension")
        if value.at is None and batch.intersection(term):
            refuse("it combines the rows with a constant that has several rows")
        for place, label in enumerate(term):
            sizes[label] = value.shape[place]
    if not batch:
        return Value(tuple(sizes.get(label) for label in right))
    (label,) = batch
    if right.count(label) != 1:
        refuse("it sums over the rows of the batch")
    return Value(tuple(sizes.get(each) for each in right), right.index(label))


def _recurrent(call: Call) -> list[Value]:
    """[steps, rows, features]; states are [directions, rows, features]."""
    value = call.input(0)
    if call.integer("layout", 0) or value.rank != 3 or value.at != 1:
        refuse("its batch dimension is not the second")
    fixed(*(call.input(place) for place in (1, 2)), *call.given(3)[:1] if call.has(3) else ())
    if call.has(4):
        refuse("the lengths of its sequences are an input")
    for place in (5, 6):
        if call.has(place) and call.input(place).at != 1:
            refuse("its initial state has no batch dimension")
    if call.has(7):
        fixed(call.input(7))
    directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
    hidden = call.integer("hidden_size", 0) or None
    state = Value((directions, None, hidden), 1)
    return [Value((value.shape[0], directions, None, hidden), 2), state, state]


def classes(call: Call) -> int | None:
    """Number of classes of a classical model; None if its attributes do not determine it."""
    for name in ("classlabels_int64s", "classlabels_strings", "classlabels_ints"):
        labels = call.attribute(name)
        if isinstance(labels, tuple):
            return len(labels)
    return None


def _grid_sample(call: Call) -> Value:
    value, grid = call.input(0), call.input(1)
    if value.at != 0 or grid.at != 0:
        refuse("the first dimension of its input and grid is not the batch dimension")
    return Value((None, value.shape[1], *grid.shape[1:-1]), 0)


def _determinant(call: Call) -> Value:
    value = call.input(0)
    if value.at is not None and value.at >= axis_of(-2, value.rank):
        refuse("it works along the batch dimension")
    return Value(value.shape[:-2], value.at)


RULES: Final[Mapping[str, Callable[[Call], Value | list[Value]]]] = {
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "ConvTranspose": _convolution,
    "Det": _determinant,
    "Einsum": _einsum,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "GridSample": _grid_sample,
    "LSTM": _recurrent,
    "MatMul": _matmul,
    "MatMulInteger": _integer_matmul,
    "QLinearConv": _quantized_convolution,
    "QLinearMatMul": _quantized_matmul,
    "RNN": _recurrent,
}
