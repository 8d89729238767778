"""Static properties of a TensorFlow graph: where tensors come from.

A tensor is named "node:output". For ``saved_model``, this module finds the tensor behind a chain
of Identity nodes, the features of a ``tf.Example`` that an output needs, and the labels that a
text output repeats for every example. Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from moorage_runtime.backends.openvino._generated import saved_model_pb2

_PARSERS: Final = frozenset({"ParseExample", "ParseExampleV2"})
# Nodes that neither change nor reorder the text of labels.
_REPEATERS: Final = frozenset({"Identity", "ExpandDims", "Tile", "Reshape", "BroadcastTo"})

_ABSENT: Final = saved_model_pb2.Attribute()


class Feature(msgspec.Struct, frozen=True):
    """A feature that a graph parses from serialized examples.

    Attributes:
        key: The feature's name in an example.
        dtype: TensorFlow's number of its datatype; 0 for one that is not dense.
        shape: Dimensions of one example's values, -1 for a variable one.
    """

    key: str
    dtype: int
    shape: tuple[int, ...]


class TensorflowGraph:
    """An index of a graph's nodes, without its functions."""

    def __init__(self, graph: saved_model_pb2.Graph) -> None:
        self._nodes = {node.name: node for node in graph.node}

    def source(self, tensor: str) -> str:
        """The tensor whose value this one has, through Identity nodes."""
        name = full_name(tensor)
        node = self._node(name)
        seen: set[str] = set()
        while node is not None and node.op == "Identity" and node.input and name not in seen:
            seen.add(name)
            name = full_name(node.input[0])
            node = self._node(name)
        return name

    def is_placeholder(self, tensor: str) -> bool:
        """Whether the tensor is an input of the graph, without a computed value."""
        node = self._node(full_name(tensor))
        return node is not None and node.op == "Placeholder"

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """The shape from the exporter, or None."""
        name, _, index = full_name(tensor).rpartition(":")
        node = self._nodes.get(name)
        shapes = [] if node is None else _attribute(node, "_output_shapes").list.shape
        if int(index) >= len(shapes) or shapes[int(index)].unknown_rank:
            return None
        return dims_of(shapes[int(index)])

    def features(self, serialized: str) -> dict[str, Feature]:
        """Tensors that are parsed from this tensor of serialized examples, with their features."""
        wanted = self.source(serialized)
        return {
            f"{node.name}:{index}": feature
            for node in self._nodes.values()
            if node.op in _PARSERS and self.source(node.input[0]) == wanted
            for index, feature in self._parsed(node)
        }

    def needed(self, outputs: Iterable[str], stops: Collection[str]) -> frozenset[str]:
        """The tensors in ``stops`` that the outputs depend on."""
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [full_name(output) for output in outputs]
        while waiting:
            tensor = waiting.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            if tensor in stops:
                found.add(tensor)
                continue
            node = self._node(tensor)
            if node is not None:
                # "^node" is a control dependency, not a node name
                waiting.extend(map(full_name, node.input))
        return frozenset(found)

    def labels(self, tensor: str) -> tuple[bytes, ...]:
        """The labels that a text tensor repeats for every example; empty for other tensors."""
        name = full_name(tensor)
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            node = self._node(name)
            if node is None or not node.input or node.op not in _REPEATERS:
                return self._constant_text(name)
            name = full_name(node.input[0])
        return ()

    def _node(self, tensor: str) -> saved_model_pb2.Node | None:
        return self._nodes.get(tensor.rpartition(":")[0])

    def _constant_text(self, tensor: str) -> tuple[bytes, ...]:
        node = self._node(tensor)
        if node is None or node.op != "Const":
            return ()
        return tuple(_attribute(node, "value").tensor.string_val)

    def _parsed(self, node: saved_model_pb2.Node) -> list[tuple[int, Feature]]:
        """Output number and feature; sparse outputs precede the dense tensors."""
        sparse, dense = self._keys(node)
        found = [
            (part * len(sparse) + index, Feature(key, 0, ()))
            for part in range(3)
            for index, key in enumerate(sparse)
        ]
        types = _attribute(node, "Tdense").list.type
        shapes = _attribute(node, "dense_shapes").list.shape
        for index, key in enumerate(dense):
            shape = () if shapes[index].unknown_rank else dims_of(shapes[index])
            dtype = 0 if shapes[index].unknown_rank else types[index]
            found.append((3 * len(sparse) + index, Feature(key, dtype, shape)))
        return found

    def _keys(self, node: saved_model_pb2.Node) -> tuple[list[str], list[str]]:
        """Names of the sparse and of the dense features.

        Source: TensorFlow's operators ParseExample (a scalar input per name) and ParseExampleV2
        (one vector of names).
        """
        inputs = [full_name(name) for name in node.input]
        if node.op == "ParseExampleV2":
            sparse, dense = inputs[2:3], inputs[3:4]
        else:
            count = _attribute(node, "Nsparse").i
            sparse, dense = inputs[2 : 2 + count], inputs[2 + count :]
            dense = dense[: _attribute(node, "Ndense").i]
        return self._texts(sparse), self._texts(dense)

    def _texts(self, tensors: Iterable[str]) -> list[str]:
        return [text.decode() for name in tensors for text in self._constant_text(name)]


def full_name(tensor: str) -> str:
    """The name with its output number, which may be omitted for the first."""
    return tensor if ":" in tensor else f"{tensor}:0"


def _attribute(node: saved_model_pb2.Node, name: str) -> saved_model_pb2.Attribute:
    """An attribute; empty if it is absent, because reading an absent one would add it."""
    return node.attr.get(name, _ABSENT)


def replace_inputs(graph: saved_model_pb2.Graph, replacements: Mapping[str, str]) -> None:
    """Replace inputs of all nodes: the keys by the values."""
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name[:1] != "^" and full_name(name) in replacements:
                node.input[index] = replacements[full_name(name)]


def dims_of(shape: saved_model_pb2.Shape) -> tuple[int, ...]:
    """The dimensions, -1 for a variable one."""
    return tuple(max(dim.size, -1) for dim in shape.dim)
