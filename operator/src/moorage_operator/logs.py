"""Structured logs: one line an event, JSON or text, with the model it is about.

Messages are constant and what varies stands in fields (`extra=`), so that lines can be counted.
Inside `about(key)` every line, also those of libraries, carries `namespace` and `model`.
"""

import json
import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from .state import ObjectKey

_key: ContextVar[ObjectKey | None] = ContextVar("key", default=None)

# Fields that every LogRecord has; whatever else stands in one came by `extra=`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

# Libraries that log each request or each handler call at INFO.
_QUIET = ("kopf", "httpx", "httpcore", "aiohttp.access", "asyncio")


@contextmanager
def about(key: ObjectKey) -> Generator[None]:
    """Lines within are about this model."""
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


def configure(form: str, level: str, stream: TextIO = sys.stderr) -> None:
    """Set logging up for the process.

    Args:
        form: "json" or "text".
        level: Name of the lowest level that is shown.
        stream: Where lines go.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    # It warns that signals do not reach it in its thread, as they should not, and shows with a
    # stack what is raised to us as well.
    logging.getLogger("kopf._core.reactor").setLevel(logging.CRITICAL)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
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
        """The line of a record."""
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
