"""Converts metadata from JSON, YAML or protobuf fields to `ServerInfo` and `ModelInfo`; pure.

Missing fields are accepted (versions, platform, extensions, inputs). The values of fields are
checked strictly, because they become part of the status: names are bounded and shapes are
integers. With an invalid value the whole metadata is unknown (None).
"""

from typing import Any, cast

from moorage_operator.probe.reading import json_text
from moorage_operator.values.answers import ModelInfo, ServerInfo, TensorInfo
from moorage_operator.values.words import printable

TEXT_LIMIT = 256
TENSOR_LIMIT = 64
LIST_LIMIT = 64
RANK_LIMIT = 32
INT64 = range(-(1 << 63), 1 << 63)


class NotMetadata(Exception):
    """The document is not valid metadata; the message names the field."""


def server_from_json(data: bytes) -> ServerInfo | None:
    """Parse the server metadata of `GET /v2`, None if the body is something else."""
    try:
        document = mapping(_loads(data), "the body")
        return server(document.get("name"), document.get("version"), document.get("extensions"))
    except NotMetadata:
        return None


def model_from_json(data: bytes) -> ModelInfo | None:
    """Parse the model metadata of `GET /v2/models/<m>`, None if the body is something else."""
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
    """Build server metadata from its fields.

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
    """Build model metadata from its fields.

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
    """Build a tensor from its fields.

    Raises:
        NotMetadata: A field has the wrong type or is too long.
    """
    sizes = None if shape is None else tuple(_size(s) for s in _list(shape, "shape", RANK_LIMIT))
    return TensorInfo(text(name, "name"), text(datatype, "datatype"), sizes)


def _loads(data: bytes) -> object:
    try:
        return json_text.decode(data)
    except json_text.NotJson as error:
        raise NotMetadata(str(error)) from error


def mapping(value: object, field: str) -> dict[str, Any]:
    """Check that a value is an object.

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
    """Check that a value is a string of at most 256 characters; escape unprintable ones.

    Raises:
        NotMetadata: It is something else.
    """
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        raise NotMetadata(f"{field} is not a string of at most {TEXT_LIMIT} characters")
    shown = printable(value)
    if len(shown) > TEXT_LIMIT:
        raise NotMetadata(f"{field} is not printable within {TEXT_LIMIT} characters")
    return shown


def _texts(value: object, field: str) -> tuple[str, ...]:
    return tuple(text(item, field) for item in _list(value, field, LIST_LIMIT))


def tensors(value: object, field: str) -> tuple[TensorInfo, ...]:
    """Build a list of tensors from a list of objects.

    Raises:
        NotMetadata: It is something else, or has more than 64 items.
    """
    found = [mapping(item, field) for item in _list(value, field, TENSOR_LIMIT)]
    return tuple(
        tensor(item.get("name"), item.get("datatype"), item.get("shape")) for item in found
    )


def _size(value: object) -> int:
    # Some servers encode the int64 of a shape as a JSON string, as protobuf's JSON mapping does.
    if isinstance(value, str) and value.removeprefix("-").isascii():
        digits = value.removeprefix("-")
        if digits.isdigit() and len(digits) < 20:
            value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value not in INT64:
        raise NotMetadata("shape has a size that is not an int64")
    return value
