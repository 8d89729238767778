"""Maps an HTTP status to a failure. Pure.

This applies to every store; a store's own error codes (`s3_answers`) take precedence.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from moorage_runtime.fetch.decide.failures import (
    BadSource,
    Changed,
    Denied,
    FetchError,
    NotFound,
    Unreachable,
)

__all__ = ["cleaned", "failure_of", "retry_after_seconds"]

# Maximum length of a server's text in a message.
QUOTE_LIMIT = 200
# A longer wait is not honoured: the kubelet restarts the container instead.
LONGEST_WAIT_SECONDS = 60.0
PASSING = {408, 425, 429}


def failure_of(
    status: int, headers: Mapping[str, str], what: str, detail: str, *, now: datetime, told: bool
) -> FetchError:
    """The failure for a status other than success.

    Args:
        status: The HTTP status.
        headers: The response headers.
        what: The requested object, for messages.
        detail: The server's message; may be empty.
        now: The current time, for a Retry-After that is a date.
        told: Whether credentials were sent.
    """
    said = f" ({cleaned(detail)})" if detail.strip() else ""
    if status in {401, 403, 407}:
        advice = (
            "check the credentials in the Secret and their permissions"
            if told
            else "no credentials were sent: set model.credentials.secretName to a Secret with "
            "credentials for this address"
        )
        return Denied(f"access to {what} is denied with status {status}{said}; {advice}")
    if status in {404, 410}:
        return NotFound(f"{what} does not exist{said}: check the URI")
    if status == 412:
        return Changed(f"{what} changed during the download")
    if status in PASSING or status >= 500:
        wait = retry_after_seconds(headers, now)
        return Unreachable(f"{what}: the server answered with status {status}{said}", wait)
    return BadSource(f"{what}: the server answered with status {status}{said}")


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float:
    """The server's Retry-After in seconds, 0 to 60. Source: RFC 9110, 10.2.3."""
    text = headers.get("Retry-After", "").strip()
    if re.fullmatch("[0-9]{1,9}", text):
        return min(float(text), LONGEST_WAIT_SECONDS)
    try:
        wanted = (parsedate_to_datetime(text) - now).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(wanted, 0.0), LONGEST_WAIT_SECONDS)


def cleaned(text: str) -> str:
    """A server's message in one line of at most 200 printable characters."""
    line = "".join(each if each.isprintable() else " " for each in text)
    words = " ".join(line.split())
    return words if len(words) <= QUOTE_LIMIT else f"{words[: QUOTE_LIMIT - 3]}..."
