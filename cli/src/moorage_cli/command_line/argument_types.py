"""Reads the texts of arguments: names, files and numbers; pure.

A text that is refused becomes an error that names the argument and what is allowed. An empty text,
such as that of a variable that is not set, is never taken for an argument that is absent.
"""

import argparse
import re

from moorage_cli.manifests.object_names import (
    NAMESPACE_NAME,
    OBJECT_NAME,
    is_namespace_name,
    is_object_name,
)

__all__ = [
    "ABSENT",
    "count",
    "namespace",
    "object_name",
    "port",
    "rate",
    "seconds",
    "target",
    "text",
]

COUNT_LIMIT = 2**31 - 1
SECONDS_LIMIT = 86400
RATE_LIMIT = 100_000
PORT_LIMIT = 65535
_WHOLE = re.compile(r"[0-9]{1,10}")
_NUMBER = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_SHOWN = 80


class _Absent(str):
    """The default of an argument that is absent; argparse passes defaults to the type as well."""

    __slots__ = ()


ABSENT = _Absent()


def text(given: str) -> str:
    """Any text that is not empty."""
    if isinstance(given, _Absent):
        return ""
    if not given:
        raise _refused(given, "must not be empty")
    return given


def object_name(given: str) -> str:
    """The name of an object of the cluster."""
    if isinstance(given, _Absent):
        return ""
    if not is_object_name(given):
        raise _refused(given, f"must be {OBJECT_NAME}")
    return given


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
