"""Where a redirect may lead, and what may be told there. Pure.

Never from https to anything else: a model that is loaded is code that runs. A credential goes no
further than the origin that it was meant for; stores redirect to a content network with all that
is needed in the URL.
"""

from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from moorage_runtime.fetch.failures import BadSource, Unreachable

__all__ = ["REDIRECTS", "follow", "host_of", "origin_of"]

REDIRECTS = {301, 302, 303, 307, 308}
DEFAULT_PORTS = {"https": 443, "http": 80}
# Told to the first origin alone.
CREDENTIAL_HEADERS = {"authorization", "cookie"}


def follow(url: str, location: str, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The next URL, and the headers to ask it with.

    Raises:
        BadSource: The redirect leaves https.
        Unreachable: The server redirects to nowhere.
    """
    try:
        target = urljoin(url, location)
        parts, origin = urlsplit(target), origin_of(target)
    except ValueError as error:
        raise Unreachable(f"{host_of(url)} redirects to what is no URL") from error
    if not location or not parts.hostname:
        raise Unreachable(f"{host_of(url)} redirects without saying where to")
    secure = urlsplit(url).scheme == "https"
    if parts.scheme != "https" and (secure or parts.scheme != "http"):
        came, goes = urlsplit(url).scheme, parts.scheme
        raise BadSource(f"{host_of(url)} redirects from {came} to {goes}, which is not followed")
    same = origin == origin_of(url)
    kept = {
        name: value
        for name, value in headers.items()
        if same or name.lower() not in CREDENTIAL_HEADERS
    }
    return target, kept


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port.

    Raises:
        ValueError: The port is none.
    """
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    return parts.scheme, (parts.hostname or "").lower(), port


def host_of(url: str) -> str:
    """Host and port as in a message: without user, path and query, which may be secret."""
    return urlsplit(url).netloc.rpartition("@")[2]
