"""Parses paths below ``/v2`` into an endpoint and a model. Pure.

::

    /v2[/]                                          server metadata
    /v2/health/(live|ready)
    /v2/models/{model}[/versions/{version}]         model metadata
    /v2/models/{model}[/versions/{version}]/(ready|infer)

Source: OIP "HTTP/REST"; the trailing slash of ``/v2/`` is from its OpenAPI file. Names are
percent-decoded after the path is split, so a name may contain a slash.
"""

import enum
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from moorage_runtime.values.errors import InvalidRequest, NotFound


class Endpoint(enum.Enum):
    """The endpoints."""

    SERVER_METADATA = enum.auto()
    LIVE = enum.auto()
    READY = enum.auto()
    MODEL_METADATA = enum.auto()
    MODEL_READY = enum.auto()
    INFER = enum.auto()


# The method of each endpoint; HEAD has become GET before.
METHOD: Final[Mapping[Endpoint, str]] = MappingProxyType(
    {
        Endpoint.SERVER_METADATA: "GET",
        Endpoint.LIVE: "GET",
        Endpoint.READY: "GET",
        Endpoint.MODEL_METADATA: "GET",
        Endpoint.MODEL_READY: "GET",
        Endpoint.INFER: "POST",
    }
)


class Target(msgspec.Struct, frozen=True):
    """An endpoint with its model and version; "" for parts that the path does not contain."""

    endpoint: Endpoint
    model: str = ""
    version: str = ""


_FIXED: Final[Mapping[tuple[str, ...], Target]] = MappingProxyType(
    {
        (): Target(Endpoint.SERVER_METADATA),
        ("",): Target(Endpoint.SERVER_METADATA),
        ("health", "live"): Target(Endpoint.LIVE),
        ("health", "ready"): Target(Endpoint.READY),
    }
)
_OF_MODEL: Final[Mapping[tuple[str, ...], Endpoint]] = MappingProxyType(
    {
        (): Endpoint.MODEL_METADATA,
        ("ready",): Endpoint.MODEL_READY,
        ("infer",): Endpoint.INFER,
    }
)


# Clients use few paths; only valid ones are cached, at most 2 MiB of them.
@functools.lru_cache(maxsize=256)
def parse(path: str) -> Target:
    """Parse a path that starts with ``/v2`` and is still percent-encoded.

    Raises:
        NotFound: No endpoint has this path.
        InvalidRequest: A name is not percent-encoded UTF-8.
    """
    segments = tuple(path.split("/")[2:])
    fixed = _FIXED.get(segments)
    if fixed is not None:
        return fixed
    if len(segments) < 2 or segments[0] != "models" or not segments[1]:
        raise _no_such_path(path)
    rest, version = segments[2:], ""
    if len(rest) >= 2 and rest[0] == "versions" and rest[1]:
        rest, version = rest[2:], _decode(rest[1], "version")
    endpoint = _OF_MODEL.get(rest)
    if endpoint is None:
        raise _no_such_path(path)
    return Target(endpoint, _decode(segments[1], "model name"), version)


def _no_such_path(path: str) -> NotFound:
    return NotFound(f"no such path: {path}")


def _decode(segment: str, what: str) -> str:
    if "%" not in segment and segment.isascii():
        return segment
    try:
        # the listener passes bytes as Latin-1 characters
        return unquote_to_bytes(segment.encode("latin-1")).decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"the {what} {segment!r} in the path is not percent-encoded UTF-8"
        ) from error
