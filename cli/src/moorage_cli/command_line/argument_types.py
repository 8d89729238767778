"""Reads the texts of arguments: names, files and numbers; pure.

A text that is refused becomes an error that names the argument and what is allowed. An empty text,
such as that of a variable that is not set, is never taken for an argument that is absent.
"""

import argparse
import re
from collections.abc import Callable, Sequence

from moorage_cli.manifests.object_names import (
    NAMESPACE_NAME,
    OBJECT_NAME,
    is_namespace_name,
    is_object_name,
)

__all__ = [
    "ABSENT",
    "choice",
    "count",
    "model_name",
    "namespace",
    "object_name",
    "path",
    "port",
    "quantity",
    "rate",
    "seconds",
    "storage_class",
    "target",
    "text",
]

COUNT_LIMIT = 2**31 - 1
SECONDS_LIMIT = 86400
RATE_LIMIT = 100_000
PORT_LIMIT = 65535
_WHOLE = re.compile(r"[0-9]{1,10}")
_NUMBER = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_QUANTITY = re.compile(r"([0-9]{1,15}(\.[0-9]{1,9})?)([KMGTPE]i|[kMGTPE])?")
_SHOWN = 80


class _Absent(str):
    """The default of an argument that is absent; argparse passes defaults to the type as well."""

    __slots__ = ()


ABSENT = _Absent()


def choice(allowed: Sequence[str]) -> Callable[[str], str]:
    """One of these words, in any case; argparse refuses others."""
    words = {each.casefold(): each for each in allowed}

    def word(given: str) -> str:
        return words.get(given.casefold(), given)

    return word


def path(given: str) -> str:
    """A path, or anything else that is not empty."""
    if isinstance(given, _Absent):
        return ""
    if not given:
        raise _refused(given, "must not be empty")
    return given


def text(given: str) -> str:
    """Any text that is not empty."""
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise _refused(given, "must be UTF-8") from error
    return path(given)


def object_name(given: str) -> str:
    """The name of an object of the cluster."""
    if isinstance(given, _Absent):
        return ""
    if not is_object_name(given):
        raise _refused(given, f"must be {OBJECT_NAME}")
    return given


def storage_class(given: str) -> str:
    """The name of a storage class; an empty one means none."""
    return given and object_name(given)


def namespace(given: str) -> str:
    """The name of a namespace."""
    if isinstance(given, _Absent):
        return ""
    if not is_namespace_name(given):
        raise _refused(given, f"must be {NAMESPACE_NAME}")
    return given


def target(given: str) -> str:
    """The name of a model, or a URL."""
    return given if "://" in given else object_name(given)


def quantity(given: str) -> str:
    """A size of storage above 0."""
    if isinstance(given, _Absent):
        return ""
    if not _QUANTITY.fullmatch(given) or not given.strip("0.KMGTPEki"):
        raise _refused(given, "must be a number above 0 with a unit, such as 20Gi")
    return given


def model_name(given: str) -> str:
    """The name of a model on a server, which a URL can have."""
    if given in {".", ".."} or not given.isprintable() or " " in given:
        raise _refused(given, "must be printable, without spaces, and not '.' or '..'")
    return text(given)


def seconds(given: str) -> float:
    """A positive number of seconds."""
    return _number(given, SECONDS_LIMIT)


def rate(given: str) -> float:
    """A positive number of requests per second."""
    return _number(given, RATE_LIMIT)


def count(given: str) -> int:
    """A whole number that a field of the API can hold."""
    return _whole(given, COUNT_LIMIT)


def port(given: str) -> int:
    """A port number; 0 means any free port."""
    return _whole(given, PORT_LIMIT)


def _number(given: str, limit: int) -> float:
    value = float(given) if _NUMBER.fullmatch(given) else 0.0
    if not 0 < value <= limit:
        raise _refused(given, f"must be a number above 0, at most {limit}")
    return value


def _whole(given: str, limit: int) -> int:
    if not _WHOLE.fullmatch(given) or int(given) > limit:
        raise _refused(given, f"must be a whole number from 0 to {limit}")
    return int(given)


def _refused(given: str, allowed: str) -> argparse.ArgumentTypeError:
    shown = given if len(given) <= _SHOWN else f"{given[: _SHOWN - 1]}…"
    return argparse.ArgumentTypeError(f"{shown!r} is invalid: {allowed}")
