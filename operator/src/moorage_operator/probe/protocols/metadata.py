"""Converts metadata from JSON, YAML or protobuf fields to `ServerInfo` and `ModelInfo`; pure.

Missing fields are accepted (versions, platform, extensions, inputs). The values of fields are
checked strictly, because they become part of the status: names are bounded and shapes are
integers. With an invalid value the whole metadata is unknown (None).
"""

import re
from typing import Any, cast

from moorage_operator.probe.reading import json_text
from moorage_operator.values.answers import ModelInfo, ServerInfo, TensorInfo
from moorage_operator.values.words import printable

TEXT_LIMIT = 256
# Models of tables have an input per column. The status lists fewer if their text is too long.
TENSOR_LIMIT = 256
LIST_LIMIT = 64
RANK_LIMIT = 32
INT64 = range(-(1 << 63), 1 << 63)
SIZE_TEXT = re.compile(r"-?[0-9]{1,19}")


class NotMetadata(Exception):
    """The document is not valid metadata."""


def server_from_json(data: bytes) -> ServerInfo | None:
    """Parse the server metadata of `GET /v2`, None if the body is something else."""
    try:
        document = mapping(_loads(data))
        return server(document.get("name"), document.get("version"), document.get("extensions"))
    except NotMetadata:
        return None


def model_from_json(data: bytes) -> ModelInfo | None:
    """Parse the model metadata of `GET /v2/models/<m>`, None if the body is something else."""
    try:
        document = mapping(_loads(data))
        return model(
            document.get("name"),
            document.get("versions"),
            document.get("platform"),
            tensors(document.get("inputs")),
            tensors(document.get("outputs")),
        )
    except NotMetadata:
        return None


def server(name: object, version: object, extensions: object) -> ServerInfo:
    """Build server metadata from its fields.

    Raises:
        NotMetadata: A field has the wrong type or is too long.
    """
    return ServerInfo(text(name), text(version or ""), _texts(extensions))


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
        name=text(name),
        versions=_texts(versions),
        platform=text(platform or ""),
        inputs=inputs,
        outputs=outputs,
    )


def tensor(name: object, datatype: object, shape: object) -> TensorInfo:
    """Build a tensor from its fields.

    Raises:
        NotMetadata: A field has the wrong type or is too long.
    """
    sizes = None if shape is None else tuple(_size(s) for s in _list(shape, RANK_LIMIT))
    return TensorInfo(text(name), text(datatype), sizes)


def _loads(data: bytes) -> object:
    try:
        return json_text.decode(data)
    except json_text.NotJson as error:
        raise NotMetadata from error


def mapping(value: object) -> dict[str, Any]:
    """Check that a value is an object.

    Raises:
        NotMetadata: It is something else.
    """
    if not isinstance(value, dict):
        raise NotMetadata
    return cast("dict[str, Any]", value)


def _list(value: object, limit: int) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise NotMetadata
    items = cast("list[Any]", value)
    if len(items) > limit:
        raise NotMetadata
    return items


def text(value: object) -> str:
    """Check that a value is a string of at most 256 characters; escape unprintable ones.

    Raises:
        NotMetadata: It is something else.
    """
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        raise NotMetadata
    shown = printable(value)
    if len(shown) > TEXT_LIMIT:
        raise NotMetadata
    return shown


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text(item) for item in _list(value, LIST_LIMIT))


def tensors(value: object) -> tuple[TensorInfo, ...]:
    """Build a list of tensors from a list of objects.

    Raises:
        NotMetadata: It is something else, or has more than 256 items.
    """
    found = [mapping(item) for item in _list(value, TENSOR_LIMIT)]
    return tuple(
        tensor(item.get("name"), item.get("datatype"), item.get("shape")) for item in found
    )


def _size(value: object) -> int:
    # Some servers encode the int64 of a shape as a JSON string, as protobuf's JSON mapping does.
    if isinstance(value, str) and SIZE_TEXT.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value not in INT64:
        raise NotMetadata
    return value
