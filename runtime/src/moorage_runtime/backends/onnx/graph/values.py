"""What the static analysis knows about a tensor and an operator. Pure."""

from typing import Final, NoReturn

import msgspec

from moorage_runtime.backends.onnx.graph.file import Attribute, Node, Number, TensorData

# Represents the number of rows among the elements of a shape tensor.
BATCH: Final = "batch"
Element = Number | str | None
# A dimension: its size, or None if it depends on the request but not on its number of rows.
Dims = tuple[int | None, ...]


class Mixes(Exception):
    """Rows may influence each other, or their independence cannot be proven."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def refuse(reason: str) -> NoReturn:
    """End the proof.

    Raises:
        Mixes: Always.
    """
    raise Mixes(reason)


class Value(msgspec.Struct, frozen=True):
    """One tensor.

    Attributes:
        dims: Its shape, or None if it is unknown. The size at ``at`` has no meaning.
        at: The batch dimension: its element i depends only on row i of the inputs, for every
            other index. None for a tensor that does not depend on the rows' contents.
        elements: The elements of a small constant or shape tensor: numbers, BATCH, or None for a
            number that depends on the request but not on its rows.
    """

    dims: Dims | None
    at: int | None = None
    elements: tuple[Element, ...] | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same for every batch."""
        return self.at is None and not self.counts_rows

    @property
    def counts_rows(self) -> bool:
        """Whether its elements contain the number of rows."""
        return self.elements is not None and BATCH in self.elements

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def shape(self) -> Dims:
        """The dimensions; ends the proof if they are unknown."""
        return refuse("the shape of a tensor is unknown") if self.dims is None else self.dims

    @property
    def batch(self) -> int:
        """The batch dimension; ends the proof without one."""
        return refuse("an input has no batch dimension") if self.at is None else self.at


FIXED: Final = Value(None)


class Call:
    """One operator with the values of its inputs.

    Attributes:
        node: The operator.
        inputs: Values in order; None for an omitted one.
        opset: Version of the operator's set.
    """

    def __init__(self, node: Node, inputs: list[Value | None], opset: int) -> None:
        self.node = node
        self.inputs = inputs
        self.opset = opset

    def has(self, place: int) -> bool:
        """Whether the input is set."""
        return place < len(self.inputs) and self.inputs[place] is not None

    def input(self, place: int) -> Value:
        """A required input."""
        value = self.inputs[place] if place < len(self.inputs) else None
        return refuse("an input is missing") if value is None else value

    def given(self, start: int = 0) -> list[Value]:
        """All inputs from this position on, without omitted ones."""
        return [value for value in self.inputs[start:] if value is not None]

    def attribute(self, name: str) -> Attribute | None:
        """An attribute of any type, or None."""
        return self.node.attributes.get(name)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attribute(name)
        if value is None:
            return default
        return value if isinstance(value, int) else refuse(f"attribute {name} is not an integer")

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attribute(name)
        if value is None:
            return default
        return value.decode() if isinstance(value, bytes) else refuse(f"{name} is not a string")

    def integers(self, name: str, place: int | None = None) -> tuple[int, ...] | None:
        """Integers from an attribute, or in newer operator sets from an input, or None.

        Raises:
            Mixes: The input's elements are unknown.
        """
        value = self.attribute(name)
        if value is not None:
            return _whole(value if isinstance(value, tuple) else (value,), name)
        if place is not None and self.has(place):
            elements = self.input(place).elements
            return _whole(
                refuse(f"{name} is not a constant") if elements is None else elements, name
            )
        return None


def _whole(elements: tuple[Element | bytes | TensorData, ...], name: str) -> tuple[int, ...]:
    found = tuple(element for element in elements if isinstance(element, int))
    return found if len(found) == len(elements) else refuse(f"{name} is not a constant")


def axis_of(axis: int, rank: int) -> int:
    """An axis, counted from the front.

    Raises:
        Mixes: The axis does not exist.
    """
    place = axis + rank if axis < 0 else axis
    return (
        place
        if 0 <= place < rank
        else refuse(f"axis {axis} is out of range for {rank} dimensions")
    )


def besides(value: Value, *axes: int) -> tuple[int, ...]:
    """These axes, counted from the front, none of which may be the batch dimension.

    Raises:
        Mixes: One of them is.
    """
    places = tuple(axis_of(axis, value.rank) for axis in axes)
    if value.at in places:
        refuse("it works along the batch dimension")
    return places


def fixed(*values: Value) -> None:
    """Check that these inputs are the same for every batch.

    Raises:
        Mixes: One of them is not.
    """
    if not all(value.is_fixed for value in values):
        refuse("one of its parameters is computed from the rows")


def single(*values: Value) -> None:
    """Check that these inputs are the same for every batch and have one element.

    Raises:
        Mixes: One of them has more, or an unknown number.
    """
    fixed(*values)
    if any(size != 1 for value in values for size in value.shape):
        refuse("one of its parameters has several elements")


def broadcast(values: list[Value]) -> Value:
    """The result of an elementwise operator.

    Raises:
        Mixes: The batch dimension of one input is aligned with another dimension of another input.
    """
    if any(value.counts_rows for value in values):
        refuse("it computes with the number of rows")
    is_batched = any(value.at is not None for value in values)
    if not is_batched and any(value.dims is None for value in values):
        return FIXED
    rank = max(value.rank for value in values)
    places = {value.at + rank - value.rank for value in values if value.at is not None}
    if len(places) > 1:
        refuse("it combines tensors whose batch dimensions differ")
    at = places.pop() if places else None
    dims: list[int | None] = [1] * rank
    for value in values:
        for place, size in enumerate(value.shape, rank - value.rank):
            if place != at:
                dims[place] = _wider(dims[place], size)
            elif value.at is None and size != 1:
                refuse("it combines the rows with a constant that has several rows")
    return Value(tuple(dims), at)


def _wider(first: int | None, second: int | None) -> int | None:
    sizes = {first, second} - {1}
    if not sizes:
        return 1
    known = [size for size in sizes if size is not None]
    return known[0] if known else None
