"""Checks the addresses of model servers on the command line, before a library fails on them."""

from urllib.parse import SplitResult, urlsplit

import httpx

from moorage_cli.printing.failures import WrongUsage

__all__ = ["checked_host", "checked_url"]


def checked_url(text: str, argument: str, allowed: str) -> SplitResult:
    """The parts of a URL with a host.

    Args:
        text: The URL.
        argument: The argument that it comes from, for messages.
        allowed: What is allowed, for messages.

    Raises:
        WrongUsage: It has no valid host or port, or parts that would be ignored.
    """
    problem = f"{argument}: {text!r} is invalid: must be {allowed}"
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        host.encode("idna")
        has_port = bool(httpx.URL(scheme="http", host=host).host) and parts.port != 0
    except (ValueError, httpx.InvalidURL) as error:  # UnicodeError is a ValueError
        raise WrongUsage(problem) from error
    is_plain = text.isprintable() and " " not in text
    if not (host and has_port and is_plain and parts.scheme):
        raise WrongUsage(problem)
    if parts.username is not None or parts.query or parts.fragment:
        raise WrongUsage(f"{argument}: must not have a user, a query or a fragment")
    return parts


def checked_host(text: str, argument: str) -> str:
    """A text of the form HOST:PORT.

    Raises:
        WrongUsage: It has another form.
    """
    allowed = "HOST:PORT, with a port from 1 to 65535"
    parts = checked_url(f"tcp://{text}", argument, allowed)
    if parts.netloc != text or parts.port is None:
        raise WrongUsage(f"{argument}: {text!r} is invalid: must be {allowed}")
    return text
