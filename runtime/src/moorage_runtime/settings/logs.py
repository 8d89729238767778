"""Structured logs: one JSON object per line for programs, plain lines for terminals."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import IO, Final

# Extra fields of a record (``extra={"path": ...}``).
_EXTRA: Final = ("path",)
_OWN: Final = "moorage_runtime"
_LEVELS: Final = {"WARNING": "warning", "ERROR": "error", "CRITICAL": "error", "DEBUG": "debug"}


class JsonFormatter(logging.Formatter):
    """One JSON object: time, level, logger, message, extra fields, and the trace if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": _LEVELS.get(record.levelname, "info"),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """One line: time, level, message and extra fields, followed by the trace, if any."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line; values are quoted, so that a control character cannot start a new line."""
        extra = "".join(f" {key}={json.dumps(value)}" for key, value in _extra(record).items())
        return super().formatMessage(record) + extra


def _extra(record: logging.LogRecord) -> dict[str, str]:
    return {key: str(vars(record)[key]) for key in _EXTRA if key in vars(record)}


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
        handler.setFormatter(TextFormatter())
    # its own loggers are apart from the root, whose handlers and level a model may replace
    for logger in (logging.getLogger(), logging.getLogger(_OWN)):
        logger.handlers[:] = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False


def enable() -> None:
    """Enable the runtime's own loggers again, which ``logging.config`` disables by default."""
    # a list of the items would fail if another thread created a logger meanwhile
    for name, logger in logging.Logger.manager.loggerDict.copy().items():
        if isinstance(logger, logging.Logger) and f"{name}.".startswith(f"{_OWN}."):
            logger.disabled = False
