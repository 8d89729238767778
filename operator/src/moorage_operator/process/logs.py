"""Structured logs: one line per event, as JSON or text.

Messages are constant and variable data is in fields (`extra=`), so that lines can be counted.
Inside `about(key)` all lines, including those of libraries, have `namespace` and `model`.
"""

import json
import logging
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from moorage_operator.values.observed import ObjectKey

_key: ContextVar[ObjectKey | None] = ContextVar("key", default=None)

# The fields of every LogRecord; all others were passed with `extra=`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

# Libraries that log each request or each handler call at INFO.
_QUIET = ("kopf", "httpx", "httpcore", "aiohttp.access", "asyncio")

# kopf logs these as errors, although it repeats the request itself. An API server refuses watches
# for a moment whenever a CRD has changed.
_REPEATED = re.compile(r"Request attempt \S+ failed; .*will (retry|re-authenticate):")


@contextmanager
def about(key: ObjectKey) -> Generator[None]:
    """Add this model to all lines within the block."""
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


def configure(form: str, level: str, stream: TextIO = sys.stderr) -> None:
    """Configure logging for the process.

    Args:
        form: "json" or "text".
        level: The name of the lowest level that is logged.
        stream: The output stream.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(_warn_of_repeated)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    # It warns that its thread receives no signals, which is intended, and logs stack traces of
    # exceptions that it also raises.
    logging.getLogger("kopf._core.reactor").setLevel(logging.CRITICAL)


def _warn_of_repeated(record: logging.LogRecord) -> bool:
    """Turn kopf's errors about requests that it repeats into warnings; False to log nothing."""
    if record.name.startswith("kopf.") and _REPEATED.match(record.getMessage()):
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return logging.getLogger().isEnabledFor(logging.WARNING)
    return True


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **_fields(record),
            "logger": record.name,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """`time level message key=value`, for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        fields = "".join(f" {key}={_value(value)}" for key, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname:<7} {record.getMessage()}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    if key := _key.get():
        return {"namespace": key.namespace, "model": key.name, **found}
    return found


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return json.dumps(text) if any(c.isspace() or c in '="' for c in text) else text
