"""HTTP for all stores: one streamed request at a time, with a `FetchError` for every failure.

    store -> Web.open(url, headers) -> Answer -> download or a store's parser

This module follows redirects by the rules of `redirects`. It does not retry: only the caller knows
what has already arrived.
"""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import (
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
)
from urllib3.exceptions import (
    TimeoutError as Urllib3TimeoutError,
)

from moorage_runtime.fetch.decide.answers import cleaned
from moorage_runtime.fetch.decide.failures import BadSource, Corrupt, Unreachable
from moorage_runtime.fetch.decide.proxies import is_exempt, parse_proxy
from moorage_runtime.fetch.decide.redirects import REDIRECTS, follow, host_of

__all__ = ["Answer", "Web"]

CONNECT_SECONDS = 10.0
# A store that sends nothing for this time has dropped the request.
READ_SECONDS = 30.0
# The received part of a chunk is lost with the connection.
CHUNK_BYTES = 64 * 1024
REDIRECT_LIMIT = 5
# Maximum size of a response that is not the model itself, such as a page of a listing or a
# manifest.
BODY_LIMIT_BYTES = 32 * 1024 * 1024
ERROR_LIMIT_BYTES = 4096
USER_AGENT = "moorage-fetch"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response with an unread body; a context manager that releases the connection."""

    url: str
    status: int
    headers: Mapping[str, str]
    _response: urllib3.BaseHTTPResponse

    def __enter__(self) -> Self:
        """The response."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection if the body was not read to its end."""
        self._response.close()
        self._response.release_conn()

    def chunks(self) -> Iterator[bytes]:
        """The body in chunks, as they arrive.

        Raises:
            Unreachable: The connection ends or stalls before the end of the body.
        """
        try:
            yield from self._response.stream(CHUNK_BYTES, decode_content=False)
        except (HTTPError, OSError) as error:
            raise _failure(self.url, error) from error

    def body(self) -> bytes:
        """A short body.

        Raises:
            Corrupt: It exceeds the limit for responses of a store.
            Unreachable: The connection ends or stalls.
        """
        found = bytearray()
        for chunk in self.chunks():
            found += chunk
            if len(found) > BODY_LIMIT_BYTES:
                raise Corrupt(
                    f"the response of {host_of(self.url)} is too large: must have "
                    f"{BODY_LIMIT_BYTES} bytes or fewer"
                )
        return bytes(found)

    def error_text(self) -> str:
        """The start of the body of an error response; empty if none arrives."""
        try:
            data = self._response.read(ERROR_LIMIT_BYTES, decode_content=False)
        except (HTTPError, OSError):
            return ""
        return data.decode(errors="replace")


class Web:
    """The network.

    Args:
        ca: Trusted certificates in PEM, in addition to the system's; may be empty.

    Raises:
        BadSource: The certificates are invalid.
    """

    def __init__(self, ca: str = "") -> None:
        context = ssl.create_default_context()
        if ca:
            try:
                context.load_verify_locations(cadata=ca)
            except (ssl.SSLError, ValueError) as error:
                raise BadSource(
                    "the key ca.crt of the Secret is not a certificate in PEM"
                ) from error
        self._context = context
        self._pools: dict[str, urllib3.PoolManager] = {}

    def open(self, url: str, headers: Mapping[str, str], method: str = "GET") -> Answer:
        """The response to one request, after redirects.

        Raises:
            BadSource: A redirect is not allowed, or a certificate is not trusted.
            Unreachable: There is no response.
        """
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **headers}
        for _ in range(REDIRECT_LIMIT + 1):
            answer = self._send(method, url, sent)
            location = answer.headers.get("Location", "")
            if answer.status not in REDIRECTS or not location:
                return answer
            with answer:
                url, sent = follow(url, location, sent)
        raise Unreachable(
            f"{host_of(url)} redirects too often: must redirect {REDIRECT_LIMIT} times or fewer"
        )

    def send(
        self, url: str, headers: Mapping[str, str], method: str = "GET", body: bytes | None = None
    ) -> Answer:
        """The response to one request, possibly a redirect; raises like `open`."""
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **headers}
        return self._send(method, url, sent, body)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        try:
            response = self._pool(url).request(
                method, url, headers=dict(headers), body=body, redirect=False, retries=False,
                preload_content=False,
            )  # fmt: skip
        except (HTTPError, OSError, ValueError) as error:
            raise _failure(url, error) from error
        return Answer(url, response.status, response.headers, response)

    def _pool(self, url: str) -> urllib3.PoolManager:
        """The pool for a URL, with the proxy from the environment."""
        proxy = _proxy_of(url)
        if proxy not in self._pools:
            timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
            self._pools[proxy] = (
                self._proxied(proxy, timeout)
                if proxy
                else urllib3.PoolManager(ssl_context=self._context, timeout=timeout, maxsize=16)
            )
        return self._pools[proxy]

    def _proxied(self, proxy: str, timeout: urllib3.Timeout) -> urllib3.ProxyManager:
        address, headers = parse_proxy(proxy)
        return urllib3.ProxyManager(
            address, proxy_headers=headers, ssl_context=self._context, timeout=timeout, maxsize=16
        )


def _proxy_of(url: str) -> str:
    """The proxy for a URL, "" for none."""
    parts, proxies = urlsplit(url), getproxies()
    host = parts.hostname or ""
    # Python compares an entry with a port only if it gets the port, which a URL may leave out
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if is_exempt(host, proxies.get("no", "")) or proxy_bypass(f"{host}:{port}"):
        return ""
    return proxies.get(parts.scheme, "")


def _reason(error: BaseException) -> str:
    """The operating system's words for an error, otherwise the library's, in one line."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return cleaned(str(error))


def _failure(url: str, error: Exception) -> BadSource | Unreachable:
    host = host_of(url)
    if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        why = cleaned(str(error).partition("CERTIFICATE_VERIFY_FAILED]")[2].partition("(_ssl")[0])
        advice = "add the CA's certificate as key ca.crt to the Secret in spec.model.credentials"
        return BadSource(f"the certificate of {host} is not trusted: {why}; {advice}")
    if isinstance(error, (LocationParseError, ValueError)) and not isinstance(error, HTTPError):
        return BadSource(f"{host} is not a valid address")
    if isinstance(error, NameResolutionError):
        return Unreachable(f"the name {host} cannot be resolved: check it and the cluster's DNS")
    if isinstance(error, NewConnectionError):
        return Unreachable(f"{host} cannot be reached: {_reason(error)}")
    if isinstance(error, Urllib3TimeoutError):
        return Unreachable(f"{host} sent nothing for {READ_SECONDS:.0f} s")
    return Unreachable(f"the connection to {host} ended: {_reason(error)}")
