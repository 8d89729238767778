"""HTTP for all stores: one request at a time, streamed, and every failure a `FetchError`.

    store -> Web.open(url, headers) -> Answer -> download or a store's parser

Redirects are followed here, by the rules of `redirects`. Nothing is tried again here: only the one
who knows what has already arrived can do that.
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

from moorage_runtime.fetch.answers import cleaned
from moorage_runtime.fetch.failures import BadSource, Corrupt, Unreachable
from moorage_runtime.fetch.redirects import REDIRECTS, follow, host_of

__all__ = ["Answer", "Web"]

CONNECT_SECONDS = 10.0
# A store that sends nothing for so long has forgotten the request.
READ_SECONDS = 30.0
# What arrived of a chunk is lost with the connection.
CHUNK_BYTES = 64 * 1024
REDIRECT_LIMIT = 5
# What a store says in an answer that is not the model itself: a page of a listing, a manifest.
BODY_LIMIT_BYTES = 32 * 1024 * 1024
ERROR_LIMIT_BYTES = 4096
USER_AGENT = "moorage-fetch"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose body has not been read; a context manager that gives it back."""

    url: str
    status: int
    headers: Mapping[str, str]
    _response: urllib3.BaseHTTPResponse

    def __enter__(self) -> Self:
        """The answer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the connection where the body was not read to its end."""
        self._response.close()
        self._response.release_conn()

    def chunks(self) -> Iterator[bytes]:
        """The body, as it comes.

        Raises:
            Unreachable: The connection ends or stalls before the body does.
        """
        try:
            yield from self._response.stream(CHUNK_BYTES, decode_content=False)
        except (HTTPError, OSError) as error:
            raise _failure(self.url, error) from error

    def body(self) -> bytes:
        """A short body.

        Raises:
            Corrupt: It is longer than any store's answer has to be.
            Unreachable: The connection ends or stalls.
        """
        found = bytearray()
        for chunk in self.chunks():
            found += chunk
            if len(found) > BODY_LIMIT_BYTES:
                raise Corrupt(
                    f"{host_of(self.url)} answers with more than {BODY_LIMIT_BYTES} bytes"
                )
        return bytes(found)

    def error_text(self) -> str:
        """The beginning of the body of an answer that is no success; empty where none comes."""
        try:
            data = self._response.read(ERROR_LIMIT_BYTES, decode_content=False)
        except (HTTPError, OSError):
            return ""
        return data.decode(errors="replace")


class Web:
    """The network.

    Args:
        ca: Certificates in PEM that are trusted beside the system's, may be empty.

    Raises:
        BadSource: The certificates are none.
    """

    def __init__(self, ca: str = "") -> None:
        context = ssl.create_default_context()
        if ca:
            try:
                context.load_verify_locations(cadata=ca)
            except (ssl.SSLError, ValueError) as error:
                raise BadSource("the key ca.crt of the Secret is no certificate in PEM") from error
        self._context = context
        self._pools: dict[str, urllib3.PoolManager] = {}

    def open(self, url: str, headers: Mapping[str, str], method: str = "GET") -> Answer:
        """The answer to one request, after redirects.

        Raises:
            BadSource: A redirect is not followed, or a certificate is not trusted.
            Unreachable: Nobody answers.
        """
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **headers}
        for _ in range(REDIRECT_LIMIT + 1):
            answer = self._send(method, url, sent)
            location = answer.headers.get("Location", "")
            if answer.status not in REDIRECTS or not location:
                return answer
            with answer:
                url, sent = follow(url, location, sent)
        raise Unreachable(f"{host_of(url)} redirects more than {REDIRECT_LIMIT} times")

    def send(self, url: str, headers: Mapping[str, str], method: str = "GET") -> Answer:
        """The answer to one request, a redirect as it is; raises as `open`."""
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **headers}
        return self._send(method, url, sent)

    def _send(self, method: str, url: str, headers: Mapping[str, str]) -> Answer:
        try:
            response = self._pool(url).request(
                method, url, headers=dict(headers), redirect=False, retries=False,
                preload_content=False,
            )  # fmt: skip
        except (HTTPError, OSError, ValueError) as error:
            raise _failure(url, error) from error
        return Answer(url, response.status, response.headers, response)

    def _pool(self, url: str) -> urllib3.PoolManager:
        """The pool for a URL: with the proxy that the environment names for it."""
        parts = urlsplit(url)
        proxy = "" if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme, "")
        if proxy not in self._pools:
            timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
            self._pools[proxy] = (
                urllib3.ProxyManager(proxy, ssl_context=self._context, timeout=timeout, maxsize=16)
                if proxy
                else urllib3.PoolManager(ssl_context=self._context, timeout=timeout, maxsize=16)
            )
        return self._pools[proxy]


def _failure(url: str, error: Exception) -> BadSource | Unreachable:
    host = host_of(url)
    if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        why = cleaned(str(error).partition("CERTIFICATE_VERIFY_FAILED]")[2].partition("(_ssl")[0])
        advice = "put the CA's certificate into the key ca.crt of the Secret"
        return BadSource(f"the certificate of {host} is not trusted: {why}; {advice}")
    if isinstance(error, (LocationParseError, ValueError)) and not isinstance(error, HTTPError):
        return BadSource(f"{host} is no address")
    if isinstance(error, NameResolutionError):
        return Unreachable(f"the name {host} cannot be resolved; check it and the cluster's DNS")
    if isinstance(error, NewConnectionError):
        return Unreachable(f"{host} cannot be reached: {cleaned(str(error.__context__ or error))}")
    if isinstance(error, Urllib3TimeoutError):
        return Unreachable(f"{host} sent nothing for {READ_SECONDS:.0f} s")
    return Unreachable(f"the connection to {host} ended: {cleaned(str(error))}")
