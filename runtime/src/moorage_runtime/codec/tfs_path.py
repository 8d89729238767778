"""The URLs of TensorFlow Serving's REST API: a method and a path become a Target.

    POST /v1/models/{model}[/versions/{number} | /labels/{label}]:(predict|classify|regress)
    GET  /v1/models/{model}[/versions/{number} | /labels/{label}][/metadata]

The literals match in any case, as the real server's do. Names and labels are percent-decoded
after they are cut out, so that a name may hold an encoded ``/`` or ``:``.
"""

import functools
import re
from enum import Enum, auto
from typing import Final
from urllib.parse import unquote

import msgspec

from moorage_runtime.errors import InvalidRequest

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
    """What the client asks of the model."""

    PREDICT = auto()
    CLASSIFY = auto()
    REGRESS = auto()
    STATUS = auto()
    METADATA = auto()


class Target(msgspec.Struct, frozen=True):
    """A parsed URL.

    Attributes:
        operation: What to do.
        model: Model name, decoded.
        version: TensorFlow version number, None for the server's choice.
        label: Version label, decoded; never together with ``version``.
    """

    operation: Operation
    model: str
    version: int | None = None
    label: str | None = None


# Clients ask the same few paths; only those that parse are kept, at most 2 MiB of them.
@functools.lru_cache(maxsize=256)
def parse_target(method: str, path: str) -> Target:
    """The target of a request.

    Args:
        method: "GET" or "POST"; any other method is malformed, as in the real server.
        path: The path as sent, percent-encoded, without the query.

    Raises:
        InvalidRequest: The path or the method does not fit, the model name is missing, or the
            version is no int64.
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
        model=unquote(match["model"]),
        version=_version_number(match["version"]),
        label=None if match["label"] is None else unquote(match["label"]),
    )


def _version_number(digits: str | None) -> int | None:
    if digits is None:
        return None
    # int64 has at most 19 digits; int() refuses texts of thousands of digits by itself
    significant = digits.lstrip("0") or "0"
    if len(significant) > 19 or int(significant) > _INT64_MAX:
        raise InvalidRequest(f"Failed to convert version: {digits} to numeric.")
    return int(significant)
