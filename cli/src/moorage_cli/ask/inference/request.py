"""Builds an HTTP inference request in the model's protocol and reads the response; pure.

The file is an Open Inference request, which is converted to another protocol if necessary. A file
in the form of that protocol is sent unchanged.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

from moorage_cli.printing.failures import Failure
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean, clean_document

__all__ = [
    "InferenceProtocol",
    "Request",
    "answered",
    "grps_body",
    "make_request",
    "read_document",
    "tensor_values",
    "tensors",
]

# GRPS interface, "GenericTensor": the name of the data type and the field of the values.
_GRPS_TYPES = {
    "UINT8": ("DT_UINT8", "flat_uint8"),
    "INT8": ("DT_INT8", "flat_int8"),
    "INT16": ("DT_INT16", "flat_int16"),
    "INT32": ("DT_INT32", "flat_int32"),
    "INT64": ("DT_INT64", "flat_int64"),
    "FP16": ("DT_FLOAT16", "flat_float16"),
    "FP32": ("DT_FLOAT32", "flat_float32"),
    "FP64": ("DT_FLOAT64", "flat_float64"),
    "BYTES": ("DT_STRING", "flat_string"),
}
_GRPS_MEMBERS = ("bin_data", "str_data", "gtensors", "ndarray", "gmap")


class InferenceProtocol(StrEnum):
    """The protocols, by their names in a spec."""

    OPEN_INFERENCE = "OpenInference"
    TENSORFLOW_SERVING = "TensorFlowServing"
    GRPS = "GRPS"


@dataclass(frozen=True, slots=True)
class Request:
    """A POST: its path and its JSON body."""

    path: str
    body: Mapping[str, Any]


def read_document(text: str, name: str) -> Mapping[str, Any]:
    """The JSON object of a file.

    Raises:
        Failure: The text is not a JSON object.
    """
    if not text.strip():
        raise Failure(f"{name} is empty: must contain a JSON object")
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Failure(f"{name} is not valid JSON: {place}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{name} is not valid JSON: a number or the nesting is too large") from error
    if not isinstance(document, dict):
        raise Failure(f"{name} must contain a JSON object, not {json.dumps(document)[:80]}")
    return cast("dict[str, Any]", document)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object, whose keys must differ: otherwise one value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Failure(f"the request has the key {twice!r} twice in one object")
    return found


def make_request(
    protocol: InferenceProtocol, model: str, version: str, document: Mapping[str, Any]
) -> Request:
    """The request to a model; with an empty version, the server chooses one.

    Raises:
        Failure: The document cannot be converted to the protocol.
    """
    name, number = quote(model, safe=""), quote(version, safe="")
    match protocol:
        case InferenceProtocol.OPEN_INFERENCE:
            tensors(document)
            of_version = f"/versions/{number}" if number else ""
            return Request(f"/v2/models/{name}{of_version}/infer", document)
        case InferenceProtocol.TENSORFLOW_SERVING:
            of_version = f"/versions/{number}" if number else ""
            path = f"/v1/models/{name}{of_version}:predict"
            return Request(path, _tensorflow_body(document))
        case InferenceProtocol.GRPS:
            chosen = f"{model}-{version}" if version else model
            return Request("/grps/v1/infer/predict", grps_body(document, chosen))


def answered(request: Request, code: int, body: bytes) -> Report:
    """The server's response; ok if the protocol reports success."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        text = body[:2000].decode("utf-8", "replace")
        shown = f"HTTP {code} from {request.path}: {clean(text) or 'an empty body'}\n"
        return Report(shown, {"code": code, "text": text}, ok=False)
    text = json.dumps(clean_document(document), indent=2, ensure_ascii=False)
    ok = code == HTTPStatus.OK and _is_success(document)
    head = "" if ok else f"HTTP {code} from {request.path}\n"
    return Report(f"{head}{text}\n", document, ok)


def _is_success(document: Any) -> bool:
    """Whether the body reports success: a GRPS server sends failures with HTTP 200."""
    if not isinstance(document, Mapping):
        return False  # in every protocol, a response is an object
    answer = cast("Mapping[str, Any]", document)
    status = answer.get("status")
    if isinstance(status, Mapping) and "status" in status:
        return cast("Mapping[str, Any]", status)["status"] in ("SUCCESS", 1)
    return not isinstance(answer.get("error"), str)


def tensors(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The inputs of an Open Inference request.

    Raises:
        Failure: The inputs are invalid.

    Source: Open Inference Protocol V2, "Inference Request JSON Object".
    """
    listed = document.get("inputs")
    if not isinstance(listed, list) or not listed:
        raise Failure(
            "inputs must be a list of tensors with name, shape, datatype and data, as in an Open "
            "Inference request"
        )
    return [_tensor(item, f"inputs[{at}]") for at, item in enumerate(cast("list[Any]", listed))]


def _tensor(item: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise Failure(f"{path}: {item!r:.80} is invalid: must be a tensor")
    tensor = cast("Mapping[str, Any]", item)
    for name in ("name", "datatype"):
        if not isinstance(tensor.get(name), str):
            raise Failure(f"{path}.{name}: {tensor.get(name)!r:.80} is invalid: must be a string")
    shape = tensor.get("shape")
    sizes = cast("list[Any]", shape) if isinstance(shape, list) else [None]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise Failure(f"{path}.shape: {shape!r:.80} is invalid: must be a list of sizes")
    if not isinstance(tensor.get("data"), list):
        raise Failure(f"{path}.data: {tensor.get('data')!r:.80} is invalid: must be a list")
    return tensor


def _tensorflow_body(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Source: TensorFlow Serving RESTful API, "Predict API", column format."""
    columns = document.get("inputs")
    is_own_form = "instances" in document or isinstance(columns, Mapping)
    if is_own_form:
        return document
    found = tensors(document)
    return {
        "inputs": {item["name"]: _nested(tensor_values(item), item["shape"]) for item in found}
    }


def grps_body(document: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """A GRPS message for this model, in its JSON form.

    Raises:
        Failure: GRPS has no equivalent of a tensor.

    Source: GRPS interface, "Predict" and "model selection".
    """
    if any(member in document for member in _GRPS_MEMBERS):
        return {"model": model, **document}
    found = [_grps_tensor(item) for item in tensors(document)]
    return {"model": model, "gtensors": {"tensors": found}}


def _grps_tensor(item: Mapping[str, Any]) -> dict[str, Any]:
    known = _GRPS_TYPES.get(item["datatype"])
    if known is None:
        expected = ", ".join(_GRPS_TYPES)
        raise Failure(
            f"{item['name']}.datatype: GRPS has no {item['datatype']}: must be one of {expected}"
        )
    dtype, member = known
    return {
        "name": item["name"],
        "dtype": dtype,
        "shape": item["shape"],
        member: tensor_values(item),
    }


def tensor_values(item: Mapping[str, Any]) -> list[Any]:
    """The tensor's values in row-major order.

    Raises:
        Failure: Their number does not match the shape.
    """
    values: list[Any] = []
    _flatten(item["data"], values)
    wanted = math.prod(item["shape"])
    if len(values) != wanted:
        raise Failure(
            f"{item['name']}.data has {len(values)} values: shape {item['shape']} needs {wanted}"
        )
    return values


def _flatten(data: Any, values: list[Any]) -> None:
    if isinstance(data, list):
        for item in cast("list[Any]", data):
            _flatten(item, values)
    else:
        values.append(data)


def _nested(values: Sequence[Any], shape: Sequence[int]) -> Any:
    """Row-major values as nested lists, or a scalar for an empty shape."""
    if not shape:
        return values[0]
    step = math.prod(shape[1:])
    return [_nested(values[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0])]
