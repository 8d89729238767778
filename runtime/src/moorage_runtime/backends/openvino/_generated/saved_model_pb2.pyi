from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SavedModel(_message.Message):
    __slots__ = ("meta_graphs",)
    META_GRAPHS_FIELD_NUMBER: _ClassVar[int]
    meta_graphs: _containers.RepeatedCompositeFieldContainer[MetaGraph]
    def __init__(self, meta_graphs: _Optional[_Iterable[_Union[MetaGraph, _Mapping]]] = ...) -> None: ...

class MetaGraph(_message.Message):
    __slots__ = ("meta_info_def", "graph_def", "signature_def")
    class Info(_message.Message):
        __slots__ = ("tags",)
        TAGS_FIELD_NUMBER: _ClassVar[int]
        tags: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, tags: _Optional[_Iterable[str]] = ...) -> None: ...
    class SignatureDefEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Signature
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Signature, _Mapping]] = ...) -> None: ...
    META_INFO_DEF_FIELD_NUMBER: _ClassVar[int]
    GRAPH_DEF_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_DEF_FIELD_NUMBER: _ClassVar[int]
    meta_info_def: MetaGraph.Info
    graph_def: Graph
    signature_def: _containers.MessageMap[str, Signature]
    def __init__(self, meta_info_def: _Optional[_Union[MetaGraph.Info, _Mapping]] = ..., graph_def: _Optional[_Union[Graph, _Mapping]] = ..., signature_def: _Optional[_Mapping[str, Signature]] = ...) -> None: ...

class Signature(_message.Message):
    __slots__ = ("inputs", "outputs", "method_name")
    class InputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TensorInfo
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TensorInfo, _Mapping]] = ...) -> None: ...
    class OutputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TensorInfo
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TensorInfo, _Mapping]] = ...) -> None: ...
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    METHOD_NAME_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.MessageMap[str, TensorInfo]
    outputs: _containers.MessageMap[str, TensorInfo]
    method_name: str
    def __init__(self, inputs: _Optional[_Mapping[str, TensorInfo]] = ..., outputs: _Optional[_Mapping[str, TensorInfo]] = ..., method_name: _Optional[str] = ...) -> None: ...

class TensorInfo(_message.Message):
    __slots__ = ("name", "dtype", "tensor_shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    TENSOR_SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: int
    tensor_shape: Shape
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[int] = ..., tensor_shape: _Optional[_Union[Shape, _Mapping]] = ...) -> None: ...

class Shape(_message.Message):
    __slots__ = ("dim", "unknown_rank")
    class Dim(_message.Message):
        __slots__ = ("size",)
        SIZE_FIELD_NUMBER: _ClassVar[int]
        size: int
        def __init__(self, size: _Optional[int] = ...) -> None: ...
    DIM_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_RANK_FIELD_NUMBER: _ClassVar[int]
    dim: _containers.RepeatedCompositeFieldContainer[Shape.Dim]
    unknown_rank: bool
    def __init__(self, dim: _Optional[_Iterable[_Union[Shape.Dim, _Mapping]]] = ..., unknown_rank: bool = ...) -> None: ...

class Graph(_message.Message):
    __slots__ = ("node", "library")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LIBRARY_FIELD_NUMBER: _ClassVar[int]
    node: _containers.RepeatedCompositeFieldContainer[Node]
    library: Library
    def __init__(self, node: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., library: _Optional[_Union[Library, _Mapping]] = ...) -> None: ...

class Library(_message.Message):
    __slots__ = ("function",)
    class Signature(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    class Function(_message.Message):
        __slots__ = ("signature", "node_def")
        SIGNATURE_FIELD_NUMBER: _ClassVar[int]
        NODE_DEF_FIELD_NUMBER: _ClassVar[int]
        signature: Library.Signature
        node_def: _containers.RepeatedCompositeFieldContainer[Node]
        def __init__(self, signature: _Optional[_Union[Library.Signature, _Mapping]] = ..., node_def: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    function: _containers.RepeatedCompositeFieldContainer[Library.Function]
    def __init__(self, function: _Optional[_Iterable[_Union[Library.Function, _Mapping]]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("name", "op", "input", "attr")
    class AttrEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Attribute
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Attribute, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    ATTR_FIELD_NUMBER: _ClassVar[int]
    name: str
    op: str
    input: _containers.RepeatedScalarFieldContainer[str]
    attr: _containers.MessageMap[str, Attribute]
    def __init__(self, name: _Optional[str] = ..., op: _Optional[str] = ..., input: _Optional[_Iterable[str]] = ..., attr: _Optional[_Mapping[str, Attribute]] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("list", "i", "type", "shape", "tensor", "func")
    class Called(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    class List(_message.Message):
        __slots__ = ("type", "shape", "func")
        TYPE_FIELD_NUMBER: _ClassVar[int]
        SHAPE_FIELD_NUMBER: _ClassVar[int]
        FUNC_FIELD_NUMBER: _ClassVar[int]
        type: _containers.RepeatedScalarFieldContainer[int]
        shape: _containers.RepeatedCompositeFieldContainer[Shape]
        func: _containers.RepeatedCompositeFieldContainer[Attribute.Called]
        def __init__(self, type: _Optional[_Iterable[int]] = ..., shape: _Optional[_Iterable[_Union[Shape, _Mapping]]] = ..., func: _Optional[_Iterable[_Union[Attribute.Called, _Mapping]]] = ...) -> None: ...
    LIST_FIELD_NUMBER: _ClassVar[int]
    I_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    FUNC_FIELD_NUMBER: _ClassVar[int]
    list: Attribute.List
    i: int
    type: int
    shape: Shape
    tensor: Tensor
    func: Attribute.Called
    def __init__(self, list: _Optional[_Union[Attribute.List, _Mapping]] = ..., i: _Optional[int] = ..., type: _Optional[int] = ..., shape: _Optional[_Union[Shape, _Mapping]] = ..., tensor: _Optional[_Union[Tensor, _Mapping]] = ..., func: _Optional[_Union[Attribute.Called, _Mapping]] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("string_val",)
    STRING_VAL_FIELD_NUMBER: _ClassVar[int]
    string_val: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, string_val: _Optional[_Iterable[bytes]] = ...) -> None: ...
