"""The signatures of a TensorFlow SavedModel, read without TensorFlow.

    saved_model.pb -> read() -> Export(functions, signatures, problems)
                      rewritten() -> a saved_model.pb with one function, for the library to compile

Each signature is a separate function of one graph. Its tensors get the names for clients of other
protocols: the default signature's keys are used unchanged. An input of another signature shares
the name of one with the same key, datatype and shape. An output shares the name of the same graph
tensor if that depends on the same inputs. Any other tensor is named by its key, or "signature/key"
if the key is in use.

classify and regress have serialized ``tf.Example`` inputs, but clients of the REST API send
features by name. The features that the outputs need become the function's inputs, instead of the
operator that parses examples. Pure.
"""

from collections.abc import Hashable, Mapping
from typing import Final

import msgspec
from google.protobuf.message import DecodeError

from moorage_runtime.backends.openvino._generated import saved_model_pb2
from moorage_runtime.backends.openvino.tensorflow_graph import (
    TensorflowGraph,
    dims_of,
    full_name,
    replace_inputs,
)
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.inference import Signature
from moorage_runtime.values.tensors import Datatype

DEFAULT_SIGNATURE: Final = "serving_default"
# The tag that TensorFlow Serving uses.
_TAG: Final = "serve"
_METHODS: Final = {
    "tensorflow/serving/predict": "predict",
    "tensorflow/serving/classify": "classify",
    "tensorflow/serving/regress": "regress",
}
# Source: enum DataType in TensorFlow's types.proto.
_DATATYPES: Final = {
    1: Datatype.FP32,
    2: Datatype.FP64,
    3: Datatype.INT32,
    4: Datatype.UINT8,
    5: Datatype.INT16,
    6: Datatype.INT8,
    7: Datatype.BYTES,
    9: Datatype.INT64,
    10: Datatype.BOOL,
    14: Datatype.BF16,
    17: Datatype.UINT16,
    19: Datatype.FP16,
    22: Datatype.UINT32,
    23: Datatype.UINT64,
}
_DTYPES: Final = {datatype: number for number, datatype in _DATATYPES.items()}
# Prefixes for placeholders of features, and for copies of outputs; exporters do not use them.
_FEATURE_SCOPE: Final = "moorage_feature"
_OUTPUT_SCOPE: Final = "moorage_output"


class GraphTensor(msgspec.Struct, frozen=True):
    """A graph tensor that is an input or output of a function.

    Attributes:
        tensor: Its name in the graph, "node:output".
        datatype: OIP datatype.
        shape: Dimensions with -1 for a variable one; None if their number is unknown.
        any_shape: TensorFlow would accept other shapes too: it checks only those of placeholders,
            and this input is a tensor within the graph whose value is replaced.
        is_feature: It is parsed from examples; the function accepts it instead of them.
        labels: Text that is the same for every example, so the library does not have to compute
            it.
    """

    tensor: str
    datatype: Datatype
    shape: tuple[int, ...] | None
    any_shape: bool = False
    is_feature: bool = False
    labels: tuple[bytes, ...] = ()


class Function(msgspec.Struct, frozen=True):
    """The computation of one or more signatures: tensors by the names for clients."""

    inputs: Mapping[str, GraphTensor]
    outputs: Mapping[str, GraphTensor]


class Export(msgspec.Struct, frozen=True):
    """A SavedModel's signatures, the default one first.

    Attributes:
        functions: Signature name to function; equal functions are the same object.
        signatures: Signature name to its keys, which map to the functions' names.
        problems: Signature name to why it cannot be served.
    """

    functions: Mapping[str, Function]
    signatures: Mapping[str, Signature]
    problems: Mapping[str, str]


class _Unservable(Exception):
    """A signature cannot be served; the message says why."""


def parse(content: bytes) -> saved_model_pb2.MetaGraph:
    """The graph for serving.

    Raises:
        InvalidConfig: The bytes are not a SavedModel, or it has no graph for serving.
    """
    try:
        document = saved_model_pb2.SavedModel.FromString(content)
    except DecodeError as error:
        raise InvalidConfig("saved_model.pb is not a valid SavedModel") from error
    graphs = list(document.meta_graphs)
    serving = [graph for graph in graphs if _TAG in graph.meta_info_def.tags]
    if len(serving or graphs) != 1:
        tags = ", ".join("+".join(graph.meta_info_def.tags) for graph in graphs) or "none"
        raise InvalidConfig(
            f"saved_model.pb must have one graph with the tag '{_TAG}', it has: {tags}"
        )
    return (serving or graphs)[0]


def read(meta_graph: saved_model_pb2.MetaGraph) -> Export:
    """The signatures of a graph.

    Raises:
        InvalidConfig: It declares no signatures for serving, or its default one cannot be served.
    """
    declared = {
        name: signature
        for name, signature in meta_graph.signature_def.items()
        if signature.method_name in _METHODS
    }
    if not declared:
        raise InvalidConfig(
            "saved_model.pb declares no signature for predict, classify or regress: export it "
            "with signatures"
        )
    reader = _Reader(TensorflowGraph(meta_graph.graph_def))
    for name in sorted(declared, key=lambda name: (name != DEFAULT_SIGNATURE, name)):
        reader.add(name, declared[name])
    return Export(reader.functions, reader.signatures, reader.problems)


def rewritten(meta_graph: saved_model_pb2.MetaGraph, function: Function) -> bytes:
    """A SavedModel whose only signature is the function.

    Inputs have the names for clients. Each output is a node of its own, because a tensor can be
    the output of several keys, and have the same name as an input.
    """
    copy = saved_model_pb2.SavedModel(meta_graphs=[meta_graph])
    target = copy.meta_graphs[0]
    replacements: dict[str, str] = {}
    signature = saved_model_pb2.Signature(method_name="tensorflow/serving/predict")
    for index, (name, item) in enumerate(function.inputs.items()):
        tensor = item.tensor
        if item.is_feature:
            tensor = f"{_FEATURE_SCOPE}_{index}"
            replacements[item.tensor] = tensor
            target.graph_def.node.append(_placeholder(tensor, item))
        signature.inputs[name].CopyFrom(_info(full_name(tensor), item))
    replace_inputs(target.graph_def, replacements)
    for name, output in output_nodes(function).items():
        item = function.outputs[name]
        target.graph_def.node.append(_identity(output, replacements.get(item.tensor), item))
        signature.outputs[output].CopyFrom(_info(full_name(output), item))
    target.signature_def.clear()
    target.signature_def[DEFAULT_SIGNATURE].CopyFrom(signature)
    return copy.SerializeToString()


def with_exact_shapes(function: Function) -> Function:
    """The function with its inputs' own shapes only."""
    inputs = {
        name: msgspec.structs.replace(item, any_shape=False)
        for name, item in function.inputs.items()
    }
    return Function(inputs, function.outputs)


def input_tensors(function: Function) -> dict[str, str]:
    """Name for clients to the tensor's name in the rewritten graph."""
    return {
        name: full_name(f"{_FEATURE_SCOPE}_{index}") if item.is_feature else item.tensor
        for index, (name, item) in enumerate(function.inputs.items())
    }


def output_nodes(function: Function) -> dict[str, str]:
    """Name for clients to the output's node in the rewritten graph, without constant labels."""
    computed = (name for name, item in function.outputs.items() if not item.labels)
    return {name: f"{_OUTPUT_SCOPE}_{index}" for index, name in enumerate(computed)}


class _Reader:
    """Collects signatures and names their tensors."""

    def __init__(self, graph: TensorflowGraph) -> None:
        self.functions: dict[str, Function] = {}
        self.signatures: dict[str, Signature] = {}
        self.problems: dict[str, str] = {}
        self._graph = graph
        self._input_names: dict[Hashable, str] = {}
        self._output_names: dict[Hashable, str] = {}

    def add(self, name: str, declared: saved_model_pb2.Signature) -> None:
        method = _METHODS[declared.method_name]
        try:
            outputs = {
                key: self._tensor(f"output '{key}'", info)
                for key, info in _ordered(declared.outputs)
            }
            if method == "predict":
                inputs = {key: self._input(key, info) for key, info in _ordered(declared.inputs)}
            else:
                inputs = self._features(declared.inputs, outputs)
                outputs = {key: self._with_labels(item) for key, item in outputs.items()}
        except _Unservable as problem:
            self.problems[name] = str(problem)
            return
        input_names = {
            key: _name_of((key, item.datatype, item.shape), name, key, self._input_names)
            for key, item in inputs.items()
        }
        output_names: dict[str, str] = {}
        for key, item in outputs.items():
            identity = self._identity(item, inputs)
            told = _name_of(identity, name, key, self._output_names)
            if told in output_names.values():  # another key of the same tensor
                told = _name_of((identity, key), name, key, self._output_names)
            output_names[key] = told
        self.signatures[name] = Signature(method, input_names, output_names)
        function = Function(
            {input_names[key]: item for key, item in inputs.items()},
            {output_names[key]: item for key, item in outputs.items()},
        )
        known = (other for other in self.functions.values() if other == function)
        self.functions[name] = next(known, function)

    def _input(self, key: str, info: saved_model_pb2.TensorInfo) -> GraphTensor:
        item = self._tensor(f"input '{key}'", info)
        if item.shape is None:
            raise _Unservable(f"input '{key}' has an unknown number of dimensions")
        if item.datatype is Datatype.BYTES and self._graph.features(item.tensor):
            raise _Unservable(
                f"input '{key}' is serialized tf.Example, which only classify and regress support"
            )
        is_placeholder = self._graph.is_placeholder(item.tensor)
        return msgspec.structs.replace(item, any_shape=not is_placeholder)

    def _tensor(self, what: str, info: saved_model_pb2.TensorInfo) -> GraphTensor:
        if not info.name:
            raise _Unservable(f"{what} is not a dense tensor")
        datatype = _DATATYPES.get(info.dtype)
        if datatype is None:
            raise _Unservable(
                f"{what} has TensorFlow's datatype {info.dtype}, which is not supported"
            )
        shape = self._graph.shape(info.name)
        if info.HasField("tensor_shape") and not info.tensor_shape.unknown_rank:
            shape = dims_of(info.tensor_shape)
        return GraphTensor(full_name(info.name), datatype, shape)

    def _with_labels(self, item: GraphTensor) -> GraphTensor:
        """The output, with its text if it is the same for every example."""
        labels = self._graph.labels(item.tensor) if item.datatype is Datatype.BYTES else ()
        if labels and item.shape in (None, (-1, len(labels)), (-1, -1)):
            return msgspec.structs.replace(item, labels=labels, shape=(-1, len(labels)))
        return item

    def _features(
        self,
        declared: Mapping[str, saved_model_pb2.TensorInfo],
        outputs: Mapping[str, GraphTensor],
    ) -> dict[str, GraphTensor]:
        """The features that outputs need, by their names in an example."""
        if len(declared) != 1:
            raise _Unservable(f"it has {len(declared)} inputs: must have one with tf.Example")
        ((key, info),) = declared.items()
        parsed = self._graph.features(info.name)
        if not parsed:
            raise _Unservable(
                f"input '{key}' is not parsed as tf.Example by the graph itself (parsing in a "
                "function is not supported)"
            )
        needed = self._graph.needed((item.tensor for item in outputs.values()), parsed)
        found: dict[str, GraphTensor] = {}
        for tensor in sorted(needed, key=lambda tensor: parsed[tensor].key):
            feature = parsed[tensor]
            datatype = _DATATYPES.get(feature.dtype)
            if datatype is None or feature.key in found:
                raise _Unservable(f"feature '{feature.key}' is not one dense tensor")
            found[feature.key] = GraphTensor(
                tensor, datatype, (-1, *feature.shape), is_feature=True
            )
        if not found:
            raise _Unservable("its outputs do not depend on any feature of the examples")
        return found

    def _identity(self, output: GraphTensor, inputs: Mapping[str, GraphTensor]) -> Hashable:
        """The identity of an output: its tensor, and the inputs that it depends on."""
        needed = self._graph.needed([output.tensor], {item.tensor for item in inputs.values()})
        sources = frozenset(map(self._graph.source, needed))
        return self._graph.source(output.tensor), output.datatype, output.shape, sources


def _name_of(identity: Hashable, signature: str, key: str, names: dict[Hashable, str]) -> str:
    """The name of a tensor for clients: its existing name, otherwise its key if that is free."""
    if identity not in names:
        names[identity] = f"{signature}/{key}" if key in names.values() else key
    return names[identity]


def _ordered(
    tensors: Mapping[str, saved_model_pb2.TensorInfo],
) -> list[tuple[str, saved_model_pb2.TensorInfo]]:
    """Sorted by key, because a protobuf map has no order."""
    return sorted(tensors.items())


def _info(tensor: str, item: GraphTensor) -> saved_model_pb2.TensorInfo:
    return saved_model_pb2.TensorInfo(
        name=tensor, dtype=_DTYPES[item.datatype], tensor_shape=_shape(item)
    )


def _placeholder(name: str, item: GraphTensor) -> saved_model_pb2.Node:
    node = saved_model_pb2.Node(name=name, op="Placeholder")
    node.attr["dtype"].type = _DTYPES[item.datatype]
    node.attr["shape"].shape.CopyFrom(_shape(item))
    return node


def _identity(name: str, replacement: str | None, item: GraphTensor) -> saved_model_pb2.Node:
    node = saved_model_pb2.Node(name=name, op="Identity", input=[replacement or item.tensor])
    node.attr["T"].type = _DTYPES[item.datatype]
    return node


def _shape(item: GraphTensor) -> saved_model_pb2.Shape:
    if item.shape is None:
        return saved_model_pb2.Shape(unknown_rank=True)
    dims = [saved_model_pb2.Shape.Dim(size=size) for size in item.shape]
    return saved_model_pb2.Shape(dim=dims)
