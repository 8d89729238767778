"""GRPS's JSON: the protobuf JSON form of GrpsMessage, and nested lists for ``ndarray``. Pure.

The decoder accepts both spellings of a member (``str_data``, ``strData``), enums by name or
number, 64-bit integers as numbers or strings, and NaN and infinities as strings or bare tokens.
The encoder uses the names of the proto, enums by name, 64-bit integers as strings, and omits
defaults.

Source: GRPS interface, "RESTful interface"; protobuf, "ProtoJSON format". The interface's examples
contain ``flat_double``, which is read as ``flat_float64``.
"""

import base64
import binascii
import functools
import math
from typing import Any, Final

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from moorage_runtime.codec.arrays import json_data, shapes
from moorage_runtime.codec.grps import tensor_types as grps_tensors
from moorage_runtime.codec.grps.message import (
    MAP_DATATYPES,
    Blob,
    Data,
    Message,
    NestedArray,
    Status,
    Table,
    Tensors,
    Text,
)
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.json.number_list import NumberList
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

_KINDS: Final = ("bin_data", "str_data", "gtensors", "ndarray", "gmap")
_DOUBLE_ALIAS: Final = "flat_double"
_NUMPY: Final = orjson.OPT_SERIALIZE_NUMPY
# Strings that a protobuf JSON parser accepts as a number.
_NONFINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def decode(body: json_text.Buffer) -> Message:
    """Parse a body.

    Raises:
        InvalidRequest: Not JSON, two data members, ``bin_data``, or an invalid member.
    """
    document = json_text.parse_object(body, _long_lists())
    present = [kind for kind in _KINDS if _member(document, kind) is not None]
    if len(present) > 1:
        raise InvalidRequest(f"{present[0]} and {present[1]} are both set: set only one")
    model = _member(document, "model")
    if model is not None and type(model) is not str:
        raise InvalidRequest(f"model: {json_text.show(model)} is invalid: must be a string")
    data = _decode_data(present[0], _member(document, present[0])) if present else None
    return Message(model or "", data)


def decode_flag(body: json_text.Buffer, key: str) -> bool:
    """Whether a body is a JSON object in which this member is true."""
    try:
        document = json_text.parse_object(body)
    except InvalidRequest:
        # raw bytes, or an error that parsing the message will report
        return False
    return document.get(key) is True


def encode(status: Status, data: Data | None) -> bytes:
    """The body of a response: one line without spaces.

    Raises:
        InvalidRequest: A string is not UTF-8.
    """
    document: dict[str, Any] = {
        "status": {"code": status.code, "msg": status.msg, "status": status.flag}
    }
    match data:
        case None:
            pass
        case Text(value):
            document["str_data"] = value
        case Blob(value):
            document["bin_data"] = base64.b64encode(value).decode()
        case Tensors(tensors):
            document["gtensors"] = {"tensors": list(map(_encode_tensor, tensors))}
        case NestedArray(array):
            document["ndarray"] = _spell(array)
        case Table(maps):
            document["gmap"] = {
                name: {key: _encode_value(name, value) for key, value in entries.items()}
                for name, entries in maps.items()
                if entries
            }
    return orjson.dumps(document, option=_NUMPY)


def _decode_data(kind: str, value: Any) -> Data:
    match kind:
        case "bin_data":
            raise InvalidRequest(
                "bin_data is not supported in JSON: send the bytes as application/octet-stream"
            )
        case "str_data":
            if type(value) is not str:
                raise InvalidRequest(
                    f"str_data: {json_text.show(value)} is invalid: must be a string"
                )
            return Text(value)
        case "gtensors":
            items = _member(_object(value, "gtensors"), "tensors")
            if items is not None and type(items) is not list:
                raise InvalidRequest(
                    f"gtensors.tensors: {json_text.show(items)} is invalid: must be an array"
                )
            return Tensors(
                tuple(
                    _decode_tensor(item, f"gtensors.tensors[{index}]")
                    for index, item in enumerate(items or ())
                )
            )
        case "ndarray":
            return NestedArray(_decode_nested(value))
        case _:
            return _decode_table(_object(value, "gmap"))


def _decode_tensor(value: Any, path: str) -> Tensor:
    item = _object(value, path)
    name = _member(item, "name") or ""
    if type(name) is not str:
        raise InvalidRequest(f"{path}.name: {json_text.show(name)} is invalid: must be a string")
    given = _member(item, "dtype")
    # a lookup of true would find 1
    datatype = grps_tensors.DATATYPE_OF.get(given) if type(given) in (str, int) else None
    if datatype is None:
        raise InvalidRequest(
            f"{path}.dtype: {json_text.show(given)} is invalid: must be the name or number of one "
            f"of {', '.join(grps_tensors.NAMES.values())}"
        )
    dims = _list(item, "shape", path)
    sizes = json_data.decode_array(
        _unquote(dims, Datatype.UINT32, f"{path}.shape"),
        Datatype.UINT32,
        (len(dims),),
        f"{path}.shape",
    )
    shape = shapes.check(sizes.tolist(), f"{path}.shape")
    field, values = _flat(item, datatype, path)
    unquoted = _unquote(values, datatype, f"{path}.{field}")
    return Tensor(
        name, datatype, json_data.decode_array(unquoted, datatype, shape, f"{path}.{field}")
    )


def _flat(item: dict[str, Any], datatype: Datatype, path: str) -> tuple[str, Any]:
    """The only field that may contain elements, and its list."""
    wanted = grps_tensors.FIELDS[datatype]
    filled = [
        field
        for field in (*grps_tensors.FIELDS.values(), _DOUBLE_ALIAS)
        if _list(item, field, path)
    ]
    if _DOUBLE_ALIAS in filled and wanted == "flat_float64":
        if wanted in filled:
            raise InvalidRequest(
                f"{path}: {_DOUBLE_ALIAS} and {wanted} are both set: set only one"
            )
        wanted = _DOUBLE_ALIAS
    wrong = [field for field in filled if field != wanted]
    if wrong:
        raise InvalidRequest(
            f"{path}.{wrong[0]} has values: {grps_tensors.NAMES[datatype]} requires {wanted}"
        )
    return wanted, _list(item, wanted, path)


def _decode_nested(value: Any) -> NDArray[Any]:
    """The FP32 array of nested lists; its shape is the nesting, and a number is a scalar."""
    if isinstance(value, NumberList):
        if value.shape is not None:
            return json_data.decode_array(value, Datatype.FP32, value.shape, "ndarray")
        value = value.tolist()
    shape: list[int] = []
    level: list[Any] = [value]
    while any(type(item) is list for item in level):
        sizes = {len(item) if type(item) is list else -1 for item in level}
        if len(sizes) > 1 or sizes == {0}:
            raise InvalidRequest(
                f"ndarray: the lists at depth {len(shape) + 1} are empty or differ in length"
            )
        shape.append(sizes.pop())
        level = [element for item in level for element in item]
    # numbers in strings are refused here, except those that are not finite, as in responses
    numbers = [_NONFINITE.get(item, item) if type(item) is str else item for item in level]
    return json_data.decode_array(numbers, Datatype.FP32, tuple(shape), "ndarray")


def _decode_table(document: dict[str, Any]) -> Table:
    maps: dict[str, dict[str, Any]] = {}
    for name, datatype in MAP_DATATYPES.items():
        entries = _member(document, name)
        if entries is None:
            continue
        path = f"gmap.{name}"
        maps[name] = {
            key: _decode_value(name, datatype, value, f"{path}.{key}")
            for key, value in _object(entries, path).items()
        }
    return Table(maps)


def _decode_value(name: str, datatype: Datatype, value: Any, path: str) -> Any:
    if datatype is not Datatype.BYTES:
        if type(value) is list:
            raise InvalidRequest(f"{path}: an array is invalid: must be a number")
        unquoted = _unquote([value], datatype, path)
        return json_data.decode_array(unquoted, datatype, (), path).item()
    if type(value) is not str:
        raise InvalidRequest(f"{path}: {json_text.show(value)} is invalid: must be a string")
    return value if name == "s_s" else _decode_base64(value, path)


def _decode_base64(text: str, path: str) -> bytes:
    # ProtoJSON: the standard or the URL-safe alphabet, with or without padding
    standard = text.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{path}: {json_text.show(text)} is not valid base64") from error


def _unquote(values: Any, datatype: Datatype, path: str) -> Any:
    """The values, with strings converted to numbers."""
    if isinstance(values, NumberList):
        if values.shape == (values.size,):
            return values
        values = values.tolist()
    types = set(map(type, values))
    if list in types:
        raise InvalidRequest(f"{path} contains an array: must be one flat array of elements")
    if datatype is Datatype.BYTES or str not in types:
        return values
    read = _read_float if datatype.startswith("FP") else int
    unquoted: list[Any] = []
    for index, value in enumerate(values):
        if type(value) is not str:
            unquoted.append(value)
            continue
        try:
            unquoted.append(read(value))
        except ValueError as error:
            raise InvalidRequest(
                f"{path}[{index}]: {json_text.show(value)} is not a valid number"
            ) from error
    return unquoted


def _read_float(text: str) -> float:
    if text in _NONFINITE:
        return _NONFINITE[text]
    number = float(text)
    if not math.isfinite(number):  # "inf" and other spellings that only Python accepts
        raise ValueError
    return number


def _encode_tensor(tensor: Tensor) -> dict[str, Any]:
    item: dict[str, Any] = {}
    if tensor.name:
        item["name"] = tensor.name
    item["dtype"] = grps_tensors.NAMES[tensor.datatype]
    if tensor.array.shape:
        item["shape"] = tensor.array.shape
    if tensor.array.size:
        item[grps_tensors.FIELDS[tensor.datatype]] = _encode_elements(tensor)
    return item


def _encode_elements(tensor: Tensor) -> Any:
    flat = tensor.array.ravel()
    step = json_data.PIECE_ELEMENTS
    if flat.size > step:
        parts = (
            msgspec.structs.replace(tensor, array=flat[at : at + step])
            for at in range(0, flat.size, step)
        )
        texts = [orjson.dumps(_encode_elements(part), option=_NUMPY)[1:-1] for part in parts]
        return orjson.Fragment(b"[%b]" % b",".join(texts))
    if tensor.datatype is Datatype.INT64:
        return list(map(str, flat.tolist()))
    if tensor.datatype is Datatype.BYTES:
        return grps_tensors.texts(tensor)
    # the serializer knows no 16-bit floats
    return _spell(flat.astype(np.float64) if tensor.datatype is Datatype.FP16 else flat)


def _spell(array: NDArray[Any]) -> Any:
    """A number array for orjson, with strings for values that are not finite."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind != "f":
        return array
    if np.isfinite(array).all():
        return array[()]  # the serializer knows no array without dimensions
    return _spell_each(array)


def _spell_each(array: NDArray[Any]) -> Any:
    if array.shape:
        return list(map(_spell_each, array))
    number = array[()]
    if np.isfinite(number):
        return number
    return "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _encode_value(name: str, value: Any) -> Any:
    match name:
        case "s_b":
            return base64.b64encode(value).decode()
        case "s_i64":
            return str(value)
        case "s_f" | "s_d":
            return _spell(np.array(value, NUMPY_DTYPE[MAP_DATATYPES[name]]))
        case _:
            return value


def _member(item: dict[str, Any], name: str) -> Any:
    """The member in either spelling; null counts as absent."""
    value, camel = item.get(name), _camel(name)
    if camel == name:
        return value
    other = item.get(camel)
    if value is not None and other is not None:
        raise InvalidRequest(f"{name} and {camel} are both set: set only one")
    return value if other is None else other


@functools.cache
def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


@functools.cache
def _long_lists() -> frozenset[str]:
    """The members whose value may be a long list of numbers, in both spellings."""
    names = (*grps_tensors.FIELDS.values(), _DOUBLE_ALIAS, "ndarray")
    return frozenset(names) | frozenset(map(_camel, names))


def _object(value: Any, path: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise InvalidRequest(f"{path}: {json_text.show(value)} is invalid: must be an object")
    return value


def _list(item: dict[str, Any], name: str, path: str) -> Any:
    """A list, or a NumberList where :func:`decode` expects one."""
    value = _member(item, name)
    if value is None:
        return []
    if type(value) is not list and not isinstance(value, NumberList):
        raise InvalidRequest(
            f"{path}.{name}: {json_text.show(value)} is invalid: must be an array"
        )
    return value
