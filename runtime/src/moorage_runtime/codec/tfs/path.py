"""Parses URLs of TensorFlow Serving's REST API: a method and a path become a Target.

    POST /v1/models/{model}[/versions/{number} | /labels/{label}]:(predict|classify|regress)
    GET  /v1/models/{model}[/versions/{number} | /labels/{label}][/metadata]

The literals are case-insensitive, as in TensorFlow Serving. Names and labels are percent-decoded
after the path is split, so a name may contain an encoded ``/`` or ``:``.
"""

import functools
import re
from enum import Enum, auto
from typing import Final

import msgspec

from moorage_runtime.codec.url_text import decoded
from moorage_runtime.values.errors import InvalidRequest

_VERSION: Final = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_PREDICTION: Final = re.compile(
    rf"/v1/models/(?P<model>[^/:]+){_VERSION}:(?P<verb>predict|classify|regress)",
    re.IGNORECASE | re.ASCII,
)
_DESCRIPTION: Final = re.compile(
    rf"/v1/models(?:/(?P<model>[^/:]+))?{_VERSION}(?P<verb>/metadata)?",
    re.IGNORECASE | re.ASCII,
)
_INT64_MAX: Final = 2**63 - 1


class Operation(Enum):
    """The operations on a model."""

    PREDICT = auto()
    CLASSIFY = auto()
    REGRESS = auto()
    STATUS = auto()
    METADATA = auto()


class Target(msgspec.Struct, frozen=True):
    """A parsed URL.

    Attributes:
        operation: The operation.
        model: Model name, decoded.
        version: TensorFlow version number; None lets the server choose.
        label: Version label, decoded; never set together with ``version``.
    """

    operation: Operation
    model: str
    version: int | None = None
    label: str | None = None


# Clients use few paths; only valid ones are cached, at most 2 MiB of them.
@functools.lru_cache(maxsize=256)
def parse_target(method: str, path: str) -> Target:
    """The target of a request.

    Args:
        method: "GET" or "POST"; other methods are malformed, as in TensorFlow Serving.
        path: The path as sent, percent-encoded, without the query.

    Raises:
        InvalidRequest: The path or the method is invalid, the model name is missing, or the
            version is not an int64.
    """
    pattern = {"POST": _PREDICTION, "GET": _DESCRIPTION}.get(method)
    match = pattern and pattern.fullmatch(path)
    if not match:
        raise InvalidRequest(f"Malformed request: {method} {path}")
    if match["model"] is None:
        raise InvalidRequest("Missing model name in request.")
    verb = match["verb"]
    return Target(
        operation=Operation[verb.lstrip("/").upper()] if verb else Operation.STATUS,
        model=decoded(match["model"]),
        version=_version_number(match["version"]),
        label=None if match["label"] is None else decoded(match["label"]),
    )


def _version_number(digits: str | None) -> int | None:
    if digits is None:
        return None
    # int64 has at most 19 digits; int() would raise for thousands of digits
    significant = digits.lstrip("0") or "0"
    if len(significant) > 19 or int(significant) > _INT64_MAX:
        raise InvalidRequest(f"Failed to convert version: {digits} to numeric.")
    return int(significant)
