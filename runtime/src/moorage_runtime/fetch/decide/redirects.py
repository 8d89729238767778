"""Rules for redirects: the allowed targets, and the headers for them. Pure.

A redirect never leads from https to another scheme, because a model can run code. A credential is
sent only to its own origin; stores redirect to a content network with all credentials in the URL.
"""

from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from moorage_runtime.fetch.decide.failures import BadSource, Unreachable

__all__ = ["REDIRECTS", "follow", "host_of", "origin_of"]

REDIRECTS = {301, 302, 303, 307, 308}
DEFAULT_PORTS = {"https": 443, "http": 80}
# Sent to the first origin only.
CREDENTIAL_HEADERS = {"authorization", "cookie", "x-amz-security-token"}


def follow(url: str, location: str, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The next URL, and the headers for it.

    Raises:
        BadSource: The redirect leaves https.
        Unreachable: The target of the redirect is missing or invalid.
    """
    try:
        target = urljoin(url, location)
        parts, origin = urlsplit(target), origin_of(target)
    except ValueError as error:
        raise Unreachable(f"{host_of(url)} redirects to an invalid URL") from error
    if not location or not parts.hostname:
        raise Unreachable(f"{host_of(url)} redirects without a target")
    secure = urlsplit(url).scheme == "https"
    if parts.scheme != "https" and (secure or parts.scheme != "http"):
        came, goes = urlsplit(url).scheme, parts.scheme
        raise BadSource(f"{host_of(url)} redirects from {came} to {goes}, which is not allowed")
    same = origin == origin_of(url)
    kept = {
        name: value
        for name, value in headers.items()
        if same or name.lower() not in CREDENTIAL_HEADERS
    }
    return target, kept


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port, as far as the URL has them.

    Raises:
        ValueError: The port is invalid.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS.get(parts.scheme)


def host_of(url: str) -> str:
    """Host and port for a message, without user, path and query, which may be secret."""
    return urlsplit(url).netloc.rpartition("@")[2]
