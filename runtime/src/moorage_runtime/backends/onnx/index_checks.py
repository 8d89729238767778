"""Checks the indexes of a run, which a GPU does not.

    request -> before() -> run with further outputs -> after() -> answer

A graph computes some indexes itself, such as the positions of tokens from a mask. So the session
also returns these tensors, and the shapes of what they index.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.backends.onnx.graph.file import Graph, TensorData
from moorage_runtime.backends.onnx.graph.indexes import Selection, find
from moorage_runtime.backends.onnx.graph.outputs import appended
from moorage_runtime.values.errors import InvalidRequest, ModelFailed

__all__ = ["IndexChecks"]

Arrays = Mapping[str, NDArray[Any]]
# The lowest and the highest element for each dimension that is indexed; none without elements.
Extremes = Sequence[tuple[int, int]]


class IndexChecks:
    """What to check in each run of one model.

    Attributes:
        fetched: The outputs of the session that the checks need.
        added: Those of them that the model itself does not have.
        appendix: The bytes that add them to the serialized model; empty if there are none.
        unseen: Operators whose own graphs may have indexes that are not checked.
    """

    def __init__(self, graph: Graph) -> None:
        indexes = find(graph)
        self.unseen = indexes.unseen
        self._inputs = indexes.inputs
        self._selections = indexes.selections
        self._constants = dict(_constants(indexes.selections, graph.initializers))
        self._shapes = {
            each.data: graph.initializers[each.data].dims
            for each in indexes.selections
            if each.data in graph.initializers
        }
        computed = dict.fromkeys(
            each.indexes
            for each in indexes.selections
            if each not in self._constants and each.indexes not in graph.inputs
        )
        data = dict.fromkeys(
            each.data
            for each in indexes.selections
            if each.data not in self._shapes and each.data not in graph.inputs
        )
        self._shape_outputs = dict(zip(data, _new_names(graph), strict=False))
        tensors = [name for name in computed if name not in graph.outputs]
        shapes = {output: name for name, output in self._shape_outputs.items()}
        self.fetched = (*computed, *shapes)
        self.added = frozenset((*tensors, *shapes))
        self.appendix = appended(tensors, shapes) if self.added else b""

    def before(self, feeds: Arrays) -> None:
        """Check the inputs that are indexes.

        Raises:
            InvalidRequest: An element is outside of the dimension that it indexes.
        """
        for name, size in self._inputs.items():
            array = feeds.get(name)
            # text is converted, and then checked, on the CPU
            if array is None or array.dtype.kind == "O":
                continue
            _check(f"input '{name}'", _extremes(array, 1), (size,), InvalidRequest)

    def after(self, feeds: Arrays, fetched: Arrays) -> None:
        """Check the indexes that the graph computed.

        Args:
            feeds: The inputs of the run, by name.
            fetched: Its outputs, by name; at least those of ``fetched``.

        Raises:
            ModelFailed: An element is outside of the dimension that it indexes.
        """
        for each in self._selections:
            shape = self._shape(each.data, feeds, fetched)
            extremes = self._constants.get(each)
            if extremes is None:
                array = feeds[each.indexes] if each.indexes in feeds else fetched[each.indexes]
                extremes = _extremes(array, _columns(each, array.shape))
            name = f"operator {each.operator} '{each.node}'"
            _check(name, extremes, shape[each.axis :], ModelFailed)

    def _shape(self, name: str, feeds: Arrays, fetched: Arrays) -> Sequence[int]:
        if name in self._shapes:
            return self._shapes[name]
        if name in feeds:
            return feeds[name].shape
        shape: Sequence[int] = fetched[self._shape_outputs[name]].tolist()
        return shape


def _check(
    name: str, extremes: Extremes, sizes: Sequence[int], fault: Callable[[str], Exception]
) -> None:
    for (low, high), size in zip(extremes, sizes, strict=False):  # further ones are not indexed
        for element in (low, high):
            if not -size <= element < size:
                must = (
                    f"must be an index from {-size} to {size - 1}"
                    if size
                    else "there is nothing to index"
                )
                raise fault(f"{name} has element {element}: {must}")


def _extremes(array: NDArray[Any], columns: int) -> Extremes:
    if not array.size:
        return ()
    return [(int(each.min()), int(each.max())) for each in array.reshape(-1, columns).T]


def _columns(selection: Selection, shape: Sequence[int]) -> int:
    """How many dimensions of the data one index selects in."""
    return shape[-1] if selection.many_axes else 1


def _constants(
    selections: Iterable[Selection], initializers: Mapping[str, TensorData]
) -> Iterator[tuple[Selection, Extremes]]:
    """Those whose indexes are the same in every run, unless they are too many to be known."""
    for each in selections:
        constant = initializers.get(each.indexes)
        if constant is not None and constant.elements is not None:
            array = np.array(constant.elements)
            yield each, _extremes(array, _columns(each, constant.dims))


def _new_names(graph: Graph) -> Iterator[str]:
    """Names that no tensor of the graph has."""
    used = {name for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    used.update(graph.inputs, graph.initializers)
    names = (f"moorage_shape_{number}" for number in itertools.count())
    return (name for name in names if name not in used)
