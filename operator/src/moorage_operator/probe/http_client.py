"""One HTTP question to a model server that is not trusted.

By pod address, without proxies, redirects, compression or a body above 1 MiB, and within the
target's deadline. Stands between the drivers that speak HTTP and the network; all of them share
one client, so that a server's connection is kept whoever asks.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import httpx
import msgspec

from moorage_operator.state import Answer, AnswerReason, ProbeTarget

from .driver import ANSWER_LIMIT_BYTES, INFERENCE_LIMIT_BYTES, MESSAGE_LIMIT, quoted

CONNECT_TIMEOUT_SECONDS = 1.0
"""Pods are one hop away; a SYN that waits longer than this meets no listener."""

CONNECTIONS = 256
"""Open connections of all targets; above it the pool closes idle ones first."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's status code and its whole body."""

    code: int
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        """The body as a JSON object, {} when it is something else."""
        try:
            found: object = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    @property
    def words(self) -> str:
        """The `error` of a JSON error body in one printable line, "" when there is none."""
        said = self.document.get("error")
        return quoted(said) if isinstance(said, str) else ""

    @property
    def is_redirect(self) -> bool:
        """Whether the server points elsewhere; nobody follows."""
        return HTTPStatus.MULTIPLE_CHOICES <= self.code < HTTPStatus.BAD_REQUEST


class HttpClient:
    """Asks servers over HTTP/1.1."""

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=None,  # noqa: S113 -- each question runs under the target's own deadline
            limits=httpx.Limits(
                max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS
            ),
            # Compressed answers are refused below: a few KiB may expand to gigabytes.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def get(self, target: ProbeTarget, path: str) -> Reply | Answer:
        """The reply, or why there is none."""
        return await self._ask(target, path, None, ANSWER_LIMIT_BYTES)

    async def post(self, target: ProbeTarget, path: str, document: object) -> Reply | Answer:
        """The reply to a JSON document, or why there is none."""
        return await self._ask(target, path, msgspec.json.encode(document), ANSWER_LIMIT_BYTES)

    async def infer(self, target: ProbeTarget, document: object) -> Reply | Answer:
        """The reply to an inference request, which may be longer."""
        sent = msgspec.json.encode(document)
        return await self._ask(target, target.infer_path, sent, INFERENCE_LIMIT_BYTES)

    async def close(self) -> None:
        """Close idle connections."""
        await self._client.aclose()

    async def _ask(
        self, target: ProbeTarget, path: str, body: bytes | None, limit: int
    ) -> Reply | Answer:
        url = f"http://{_host(target.address)}:{target.port}{path}"
        try:
            async with asyncio.timeout(target.timeout_seconds):
                return await self._read(url, target, body, limit)
        except (TimeoutError, httpx.TimeoutException):
            return Answer(
                None,
                AnswerReason.TIMED_OUT,
                f"no answer from {target.address}:{target.port}{path} within "
                f"{target.timeout_seconds:g} s",
            )
        except httpx.ProtocolError as error:
            return _protocol_error(target, error)
        except httpx.InvalidURL as error:
            return Answer(None, AnswerReason.MALFORMED, f"{url!r} is no URL: {error}")
        except httpx.HTTPError as error:
            said = quoted(str(error)) or type(error).__name__
            where = f"{target.address}:{target.port}"
            return Answer(None, AnswerReason.REFUSED, f"cannot connect to {where}: {said}")

    async def _read(
        self, url: str, target: ProbeTarget, sent: bytes | None, limit: int
    ) -> Reply | Answer:
        connect = min(CONNECT_TIMEOUT_SECONDS, target.timeout_seconds)
        timeout = httpx.Timeout(target.timeout_seconds, connect=connect)
        method, headers = "GET", {}
        if sent is not None:
            method, headers = "POST", {"Content-Type": "application/json"}
        async with self._client.stream(
            method, url, content=sent, headers=headers, timeout=timeout
        ) as answer:
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                return _malformed(url, "has a Content-Encoding that was not asked for")
            body = bytearray()
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > limit:
                    return _malformed(url, f"is larger than {limit} bytes")
            return Reply(answer.status_code, bytes(body))


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _malformed(url: str, why: str) -> Answer:
    return Answer(None, AnswerReason.MALFORMED, f"the answer of {url} {why}")


def _protocol_error(target: ProbeTarget, error: httpx.ProtocolError) -> Answer:
    # httpx has one class for "closed without an answer" (a server that starts or stops) and for
    # bytes that are not HTTP; its text is the only thing that tells them apart.
    if str(error).startswith("Server disconnected"):
        where = f"{target.address}:{target.port}"
        return Answer(None, AnswerReason.REFUSED, f"{where} closed the connection unanswered")
    return Answer(
        None,
        AnswerReason.WRONG_PROTOCOL,
        f"what listens on port {target.port} does not speak HTTP: {quoted(str(error))}",
    )


# Statuses of a server that does not want to answer this one now; they say nothing of its protocol.
_UNWILLING = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
)


def rejection(reply: Reply, path: str) -> Answer:
    """The server's own words for an inference request that it did not answer."""
    said = reply.words or quoted(reply.body[:MESSAGE_LIMIT].decode(errors="replace"))
    told = f"HTTP {reply.code} from {path}"
    return Answer(
        verdict=False,
        reason=AnswerReason.NOT_READY,
        message=f"{told}: {said}" if said else told,
    )


def refusal(reply: Reply, path: str, expected: str) -> Answer:
    """What a reply means that lacks what the protocol puts into its body.

    Args:
        reply: The reply.
        path: What was asked.
        expected: What the protocol's body would have.
    """
    if reply.code in _UNWILLING or reply.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        words = reply.words or f"HTTP {reply.code} from {path}"
        return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=words)
    told = f"HTTP {reply.code} from {path} without {expected}"
    return Answer(None, AnswerReason.WRONG_PROTOCOL, told)
