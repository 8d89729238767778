"""Structured logs: one JSON object a line for machines, one plain line for terminals."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO, Final

_LEVELS: Final = {"WARNING": "warning", "ERROR": "error", "CRITICAL": "error", "DEBUG": "debug"}


class JsonFormatter(logging.Formatter):
    """One JSON object: time, level, logger, message, and the trace when there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": _LEVELS.get(record.levelname, "info"),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def configure(level: str, log_format: str, stream: IO[str] | None = None) -> None:
    """Send all logs to the stream, stderr by default.

    Args:
        level: "debug", "info", "warning" or "error".
        log_format: "json", "text", or "auto" for text on a terminal and JSON elsewhere.
        stream: Where to write.
    """
    target = stream or sys.stderr
    handler = logging.StreamHandler(target)
    if log_format == "json" or (log_format == "auto" and not target.isatty()):
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
