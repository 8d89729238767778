"""Rules of operators that move elements: reshape, transpose, slice, gather, scatter. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from moorage_runtime.backends.onnx.graph.values import (
    BATCH,
    FIXED,
    Call,
    Dims,
    Element,
    Value,
    axis_of,
    besides,
    broadcast,
    fixed,
    refuse,
)

_FAR: Final = 2**31 - 1


def _shape(call: Call) -> Value:
    value = call.input(0)
    elements: list[Element] = list(value.shape)
    if value.at is not None:
        elements[value.at] = BATCH
    start = call.integer("start", 0)
    end = call.integer("end", value.rank)
    chosen = tuple(elements[start:end])
    return Value((len(chosen),), None, chosen)


def _reshape(call: Call) -> Value:
    value = call.input(0)
    wanted = _sizes(call.input(1))
    if value.at is None:
        return _reshaped_constant(value, wanted)
    if value.at != 0:
        refuse("it reshapes a tensor whose batch dimension is not the first")
    if not wanted:
        refuse("it removes the batch dimension")
    keeps_zero = bool(call.integer("allowzero", 0))
    sizes: list[Element] = []
    for place, size in enumerate(wanted):
        if size == 0 and not keeps_zero:
            copied = value.shape[place] if place < value.rank else refuse("it has a wrong shape")
            sizes.append(BATCH if place == 0 else copied)
        else:
            sizes.append(size)
    if BATCH in sizes[1:]:
        refuse("it moves the batch dimension")
    row = _product(value.shape[1:])
    if sizes[0] == BATCH:
        return Value((None, *_inferred(sizes[1:], row)), 0)
    # the first dimension is inferred: it counts rows if the others make up exactly one row
    rest = tuple(size if isinstance(size, int) else None for size in sizes[1:])
    if sizes[0] != -1 or row is None or _product(rest) != row:
        refuse("it may move elements between rows")
    return Value((None, *rest), 0)


def _reshaped_constant(value: Value, wanted: tuple[Element, ...]) -> Value:
    if BATCH in wanted:
        refuse("it spreads a constant over the rows")
    count = None if value.dims is None else _product(value.dims)
    if any(size is None or size == 0 for size in wanted):
        if value.counts_rows:
            refuse("it reshapes the number of rows")
        return Value(tuple(None for _ in wanted))
    return Value(_inferred(list(wanted), count), None, value.elements)


def _inferred(sizes: list[Element], count: int | None) -> Dims:
    """The dimensions, with the one that is -1 computed from the number of elements."""
    others = _product(tuple(s if isinstance(s, int) and s != -1 else 1 for s in sizes))
    dims: list[int | None] = []
    for size in sizes:
        if size != -1:
            dims.append(size if isinstance(size, int) else None)
        elif count is None or not others or None in sizes:
            dims.append(None)
        else:
            dims.append(count // others)
    return tuple(dims)


def _product(dims: Dims) -> int | None:
    count = 1
    for size in dims:
        if size is None:
            return None
        count *= size
    return count


def _sizes(value: Value) -> tuple[Element, ...]:
    """The elements of a shape tensor."""
    if value.at is not None:
        refuse("a shape is computed from the rows")
    return refuse("a shape is not a constant") if value.elements is None else value.elements


def _flatten(call: Call) -> Value:
    value = call.input(0)
    axis = call.integer("axis", 1)
    axis = axis + value.rank if axis < 0 else axis
    if value.at != 0 or axis < 1 or any(size != 1 for size in value.shape[1:axis]):
        refuse("it joins the batch dimension with another one")
    return Value((None, _product(value.shape[axis:])), 0)


def _squeeze(call: Call) -> Value:
    value = call.input(0)
    if value.counts_rows:
        is_one = len(value.elements or ()) == 1
        return Value((), None, value.elements) if is_one else refuse("it has several elements")
    axes = call.integers("axes", 1)
    if axes is None:
        refuse("it removes the batch dimension of a single row")
    places = besides(value, *axes)
    dims = tuple(size for place, size in enumerate(value.shape) if place not in places)
    at = None if value.at is None else value.at - sum(place < value.at for place in places)
    return Value(dims, at, value.elements)


def _unsqueeze(call: Call) -> Value:
    value = call.input(0)
    axes = call.integers("axes", 1)
    if axes is None:
        refuse("its axes are not a constant")
    rank = value.rank + len(axes)
    places = {axis_of(axis, rank) for axis in axes}
    kept = [place for place in range(rank) if place not in places]
    dims: list[int | None] = [1] * rank
    for place, size in zip(kept, value.shape, strict=True):
        dims[place] = size
    return Value(tuple(dims), None if value.at is None else kept[value.at], value.elements)


def _transpose(call: Call) -> Value:
    value = call.input(0)
    order = call.integers("perm") or tuple(reversed(range(value.rank)))
    if sorted(order) != list(range(value.rank)):
        refuse("its order of dimensions is wrong")
    dims = tuple(value.shape[place] for place in order)
    return Value(dims, None if value.at is None else order.index(value.at))


def _concat(call: Call) -> Value:
    values = call.given()
    if all(value.at is None for value in values):
        return _joined_shapes(values)
    first = values[0]
    (axis,) = besides(first, call.integer("axis", 1))
    dims = list(first.shape)
    total: int | None = 0
    for value in values:
        if (value.at, value.rank) != (first.at, first.rank):
            refuse("it joins tensors whose batch dimensions differ")
        size = value.shape[axis]
        total = None if total is None or size is None else total + size
    dims[axis] = total
    return Value(tuple(dims), first.at)


def _joined_shapes(values: list[Value]) -> Value:
    elements: list[Element] = []
    for value in values:
        if value.elements is None or value.rank != 1:
            return refuse("it joins the number of rows with unknown numbers")
        elements += value.elements
    return Value((len(elements),), None, tuple(elements))


def _split(call: Call) -> list[Value]:
    value = call.input(0)
    (axis,) = besides(value, call.integer("axis", 0))
    fixed(*call.given(1))
    count = len(call.node.outputs)
    parts = call.attribute("split")
    if call.has(1):
        parts = call.input(1).elements
    sizes: list[int | None] = [None] * count
    if isinstance(parts, tuple) and len(parts) == count:
        sizes = [size if isinstance(size, int) else None for size in parts]
    elif parts is None:
        whole = value.shape[axis]
        if whole is not None and whole % count == 0:
            sizes = [whole // count] * count
    return [
        Value((*value.shape[:axis], size, *value.shape[axis + 1 :]), value.at) for size in sizes
    ]


def _slice(call: Call) -> Value:
    value = call.input(0)
    if value.counts_rows or (value.at is None and value.elements is not None):
        return _sliced_shape(call, value)
    starts = call.integers("starts", 1)
    if starts is None:
        refuse("its starts are not a constant")
    ends, steps = call.integers("ends", 2) or (), call.integers("steps", 4) or (1,) * len(starts)
    axes = call.integers("axes", 3) or tuple(range(len(starts)))
    dims = list(value.shape)
    if not len(starts) == len(ends) == len(steps) == len(axes):
        refuse("its starts and ends differ in number")
    for start, end, step, axis in zip(starts, ends, steps, axes, strict=True):
        place = axis_of(axis, value.rank)
        if place == value.at:
            if start != 0 or end < _FAR or step != 1:
                refuse("it takes some rows of the batch")
            continue
        size = dims[place]
        dims[place] = None if size is None else len(range(size)[start:end:step])
    return Value(tuple(dims), value.at)


def _sliced_shape(call: Call, value: Value) -> Value:
    starts, ends = call.integers("starts", 1), call.integers("ends", 2)
    steps = call.integers("steps", 4) or (1,)
    is_simple = value.rank == 1 and starts is not None and len(starts) == 1
    if not is_simple or starts is None or ends is None or value.elements is None:
        return refuse("it slices the number of rows")
    chosen = value.elements[starts[0] : ends[0] : steps[0]]
    return Value((len(chosen),), None, chosen)


def _gather(call: Call) -> Value:
    data, indices = call.input(0), call.input(1)
    axis = axis_of(call.integer("axis", 0), data.rank)
    if indices.counts_rows or (data.counts_rows and indices.at is not None):
        refuse("it uses the number of rows as an index")
    if data.at is None and data.elements is not None and indices.at is None:
        return _picked(data, indices)
    dims = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    if indices.at is not None:
        if data.at is not None:
            refuse("it picks elements by indices that depend on the rows")
        return Value(dims, axis + indices.at)
    if data.at is None:
        return Value(dims)
    besides(data, axis)
    return Value(dims, data.at if data.at < axis else data.at + indices.rank - 1)


def _picked(data: Value, indices: Value) -> Value:
    """Elements of a shape tensor."""
    wanted = indices.elements
    if data.rank != 1 or wanted is None or data.elements is None:
        return refuse("it picks from the number of rows")
    size = len(data.elements)
    found: list[Element] = []
    for index in wanted:
        if not isinstance(index, int) or not -size <= index < size:
            refuse("its indices are not constant")
        found.append(data.elements[index])
    return Value(indices.dims, None, tuple(found))


def _gather_elements(call: Call) -> Value:
    data, indices = call.input(0), call.input(1)
    if data.at is None or (data.at, data.rank) != (indices.at, indices.rank):
        refuse("data and indices differ in their batch dimension")
    besides(data, call.integer("axis", 0))
    return Value(indices.shape, indices.at)


def _gather_nd(call: Call) -> Value:
    data, indices = call.input(0), call.input(1)
    if call.integer("batch_dims", 0) < 1 or data.at != 0 or indices.at != 0:
        refuse("it picks elements across the batch dimension")
    last = indices.shape[-1]
    if last is None:
        refuse("the size of its indices is unknown")
    taken = call.integer("batch_dims", 0) + last
    return Value((*indices.shape[:-1], *data.shape[taken:]), 0)


def _scatter_elements(call: Call) -> Value:
    data, indices, updates = call.input(0), call.input(1), call.input(2)
    if data.at is None or not data.at == indices.at == updates.at:
        refuse("data, indices and updates differ in their batch dimension")
    besides(data, call.integer("axis", 0))
    return data


def _expand(call: Call) -> Value:
    value = call.input(0)
    wanted = _sizes(call.input(1))
    if value.counts_rows:
        refuse("it repeats the number of rows")
    dims = tuple(size if isinstance(size, int) and size > 0 else None for size in wanted)
    if BATCH not in wanted:
        # with a constant, the rules of elementwise operators apply
        return broadcast([value, Value(dims)])
    at = wanted.index(BATCH)
    if BATCH in wanted[at + 1 :]:
        refuse("it repeats along two dimensions by the number of rows")
    return broadcast([value, Value(dims, at)])


def _tile(call: Call) -> Value:
    value = call.input(0)
    repeats = call.integers("repeats", 1)
    if repeats is None or len(repeats) != value.rank:
        refuse("its repeats are not a constant")
    if value.at is not None and repeats[value.at] != 1:
        refuse("it repeats the batch")
    dims = tuple(
        None if size is None else size * times
        for size, times in zip(value.shape, repeats, strict=True)
    )
    return Value(dims, value.at)


def _constant_of_shape(call: Call) -> Value:
    wanted = _sizes(call.input(0))
    dims = tuple(size if isinstance(size, int) else None for size in wanted)
    if BATCH not in wanted:
        count = _product(dims)
        number = call.attribute("value")
        fill = getattr(number, "elements", None) or (0.0,)
        return Value(dims, None, fill * count if count is not None and count < 64 else None)
    if wanted.count(BATCH) > 1:
        refuse("it has two dimensions with the number of rows")
    return Value(dims, wanted.index(BATCH))


def _multiply(call: Call) -> Value:
    """Elementwise multiplication, also for the elements of a shape tensor."""
    first, second = call.input(0), call.input(1)
    if not _are_shapes(first, second):
        return broadcast([first, second])
    return _folded(first, second, _times)


def _equal(call: Call) -> Value:
    first, second = call.input(0), call.input(1)
    if not _are_shapes(first, second):
        return broadcast([first, second])
    return _folded(first, second, _same)


def _times(first: Element, second: Element) -> Element:
    if BATCH in (first, second):
        other = second if first == BATCH else first
        return BATCH if other == 1 else refuse("it computes with the number of rows")
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first * second
    return None


def _same(first: Element, second: Element) -> Element:
    if BATCH in (first, second):
        other = second if first == BATCH else first
        if isinstance(other, int) and other < 1:
            return False
        refuse("it compares with the number of rows")
    return None if first is None or second is None else first == second


def _are_shapes(*values: Value) -> bool:
    return all(
        value.at is None and value.elements is not None and value.rank < 2 for value in values
    )


def _folded(first: Value, second: Value, combine: Callable[[Element, Element], Element]) -> Value:
    a, b = first.elements or (), second.elements or ()
    size = max(len(a), len(b))
    if len(a) not in (1, size) or len(b) not in (1, size):
        refuse("its inputs have different sizes")
    a, b = (each * size if len(each) == 1 else each for each in (a, b))
    wider = first if first.rank >= second.rank else second
    dims: Dims = (size,) if wider.rank else ()
    return Value(dims, None, tuple(map(combine, a, b)))


def _where(call: Call) -> Value:
    values = [call.input(0), call.input(1), call.input(2)]
    if not _are_shapes(*values):
        return broadcast(values)
    condition, yes, no = (value.elements or () for value in values)
    size = max(len(condition), len(yes), len(no))
    if any(len(each) not in (1, size) for each in (condition, yes, no)):
        refuse("its inputs have different sizes")
    condition, yes, no = (e * size if len(e) == 1 else e for e in (condition, yes, no))
    found: list[Element] = []
    for chosen, first, second in zip(condition, yes, no, strict=True):
        if chosen is None and BATCH in (first, second):
            refuse("it chooses between the number of rows and another number")
        found.append(None if chosen is None else first if chosen else second)
    return Value((size,) if any(value.rank for value in values) else (), None, tuple(found))


def _pad(call: Call) -> Value:
    value = call.input(0)
    pads = call.integers("pads", 1)
    fixed(*call.given(2))
    axes = call.integers("axes", 3) or tuple(range(value.rank))
    if pads is None or len(pads) != 2 * len(axes):
        refuse("its pads are not a constant")
    dims = list(value.shape)
    for number, axis in enumerate(axes):
        place = axis_of(axis, value.rank)
        added = pads[number] + pads[number + len(axes)]
        if place == value.at and (pads[number] or pads[number + len(axes)]):
            refuse("it adds rows to the batch")
        size = dims[place]
        dims[place] = None if size is None else size + added
    return Value(tuple(dims), value.at)


def _resize(call: Call) -> Value:
    value = call.input(0)
    fixed(*call.given(1))
    if value.at is None:
        return FIXED
    axes = call.integers("axes")
    if axes is not None:
        besides(value, *axes)
    elif call.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        refuse("it crops by a region")
    else:
        place = 1 if call.opset < 11 else 2  # Upsample ended with version 9
        scales = call.input(place).elements if call.has(place) else ()
        if not scales or scales[value.at] != 1:
            refuse("it may resize the batch dimension")
    return Value((None,) * value.rank, value.at)


def _blocks(call: Call) -> Value:
    value = call.input(0)
    if value.at != 0 or value.rank != 4:
        refuse("its input is not a batch of images")
    size = call.integer("blocksize", 1)
    channels, *image = value.shape[1:]
    times, over = (1, size) if call.node.operator == "SpaceToDepth" else (size, 1)
    channels = _scaled(channels, over * over, times * times)
    return Value((None, channels, *(_scaled(each, times, over) for each in image)), 0)


def _scaled(size: int | None, times: int, over: int) -> int | None:
    return None if size is None else size * times // over


def _triangle(call: Call) -> Value:
    value = call.input(0)
    fixed(*call.given(1))
    besides(value, -1, -2)
    return value


RULES: Final[Mapping[str, Callable[[Call], Value | list[Value]]]] = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _blocks,
    "Equal": _equal,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Mul": _multiply,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "ScatterElements": _scatter_elements,
    "Shape": _shape,
    "Slice": _slice,
    "SpaceToDepth": _blocks,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resize,
    "Where": _where,
}
