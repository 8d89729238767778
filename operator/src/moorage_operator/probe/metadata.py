"""Metadata from JSON, YAML or protobuf fields to `ServerInfo` and `ModelInfo`; pure.

Tolerant in what servers leave out (versions, platform, extensions, inputs) and strict in what they
put in: names are bounded, shapes are integers, and whatever does not fit makes the metadata
unknown (None) rather than wrong, because the values go into the resource's status.
"""

from typing import Any, cast

from moorage_operator.answers import ModelInfo, ServerInfo, TensorInfo

from . import json_text

TEXT_LIMIT = 256
TENSOR_LIMIT = 64
LIST_LIMIT = 64
RANK_LIMIT = 32
INT64 = range(-(1 << 63), 1 << 63)


class NotMetadata(Exception):
    """The document is no metadata; the message says which field."""


def server_from_json(data: bytes) -> ServerInfo | None:
    """Server metadata of `GET /v2`, None when the body is something else."""
    try:
        document = mapping(_loads(data), "the body")
        return server(document.get("name"), document.get("version"), document.get("extensions"))
    except NotMetadata:
        return None


def model_from_json(data: bytes) -> ModelInfo | None:
    """Model metadata of `GET /v2/models/<m>`, None when the body is something else."""
    try:
        document = mapping(_loads(data), "the body")
        return model(
            document.get("name"),
            document.get("versions"),
            document.get("platform"),
            tensors(document.get("inputs"), "inputs"),
            tensors(document.get("outputs"), "outputs"),
        )
    except NotMetadata:
        return None


def server(name: object, version: object, extensions: object) -> ServerInfo:
    """Server metadata from its fields.

    Raises:
        NotMetadata: A field has the wrong type or is too long.
    """
    return ServerInfo(
        text(name, "name"), text(version or "", "version"), _texts(extensions, "extensions")
    )


def model(
    name: object,
    versions: object,
    platform: object,
    inputs: tuple[TensorInfo, ...],
    outputs: tuple[TensorInfo, ...],
) -> ModelInfo:
    """Model metadata from its fields.

    Raises:
        NotMetadata: A field has the wrong type or is too long.
    """
    return ModelInfo(
        name=text(name, "name"),
        versions=_texts(versions, "versions"),
        platform=text(platform or "", "platform"),
        inputs=inputs,
        outputs=outputs,
    )


def tensor(name: object, datatype: object, shape: object) -> TensorInfo:
    """A tensor from its fields.

    Raises:
        NotMetadata: A field has the wrong type or is too long.
    """
    sizes = None if shape is None else tuple(_size(s) for s in _list(shape, "shape", RANK_LIMIT))
    return TensorInfo(text(name, "name"), text(datatype, "datatype"), sizes)


def error_text(data: bytes) -> str:
    """The `error` of an OIP error body, "" when there is none."""
    try:
        document = mapping(_loads(data), "the body")
    except NotMetadata:
        return ""
    found = document.get("error")
    return found if isinstance(found, str) else ""


def _loads(data: bytes) -> object:
    try:
        return json_text.decode(data)
    except json_text.NotJson as error:
        raise NotMetadata(str(error)) from error


def mapping(value: object, field: str) -> dict[str, Any]:
    """An object with its fields.

    Raises:
        NotMetadata: It is something else.
    """
    if not isinstance(value, dict):
        raise NotMetadata(f"{field} is not an object")
    return cast("dict[str, Any]", value)


def _list(value: object, field: str, limit: int) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise NotMetadata(f"{field} is not a list")
    items = cast("list[Any]", value)
    if len(items) > limit:
        raise NotMetadata(f"{field} has {len(items)} items, expected at most {limit}")
    return items


def text(value: object, field: str) -> str:
    """A string of at most 256 characters.

    Raises:
        NotMetadata: It is something else.
    """
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        raise NotMetadata(f"{field} is not a string of at most {TEXT_LIMIT} characters")
    return value


def _texts(value: object, field: str) -> tuple[str, ...]:
    return tuple(text(item, field) for item in _list(value, field, LIST_LIMIT))


def tensors(value: object, field: str) -> tuple[TensorInfo, ...]:
    """A list of tensors from a list of objects.

    Raises:
        NotMetadata: It is something else, or longer than 64.
    """
    found = [mapping(item, field) for item in _list(value, field, TENSOR_LIMIT)]
    return tuple(
        tensor(item.get("name"), item.get("datatype"), item.get("shape")) for item in found
    )


def _size(value: object) -> int:
    # Some servers write the int64 of a shape as a JSON string, as protobuf's JSON mapping does.
    if isinstance(value, str) and value.removeprefix("-").isascii():
        digits = value.removeprefix("-")
        if digits.isdigit() and len(digits) < 20:
            value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value not in INT64:
        raise NotMetadata(f"shape has {value!r}, expected an int64")
    return value
