"""One HTTP question to a model server that is not trusted.

By pod address, without proxies, redirects, compression or a body above 1 MiB, and within the
target's deadline. Stands between the drivers that speak HTTP and the transport.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import httpx
import msgspec

from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.planned import ProbeTarget

from . import json_text
from .driver import ANSWER_LIMIT_BYTES, INFERENCE_LIMIT_BYTES, MESSAGE_LIMIT, quoted
from .http_transport import LIMIT, BodyTooLarge, Disconnected, OneConnectionEach

_HEADERS = {
    "Accept": "application/json",
    # Compressed answers are refused below: a few KiB may expand to gigabytes.
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "moorage-operator",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's status code and its whole body."""

    code: int
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        """The body as a JSON object, {} when it is something else."""
        try:
            found = json_text.decode(self.body)
        except json_text.NotJson:
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
    """Asks servers over HTTP/1.1.

    httpx's transport is called without its client, which is there for cookies, redirects and
    authentication, of which a poll has none.
    """

    def __init__(self) -> None:
        self._transport = OneConnectionEach()

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
        """Let the transport go."""
        await self._transport.aclose()

    async def _ask(
        self, target: ProbeTarget, path: str, body: bytes | None, limit: int
    ) -> Reply | Answer:
        url = f"http://{_host(target.address)}:{target.port}{path}"
        try:
            async with asyncio.timeout(target.timeout_seconds):
                return await self._read(url, body, limit)
        except (TimeoutError, httpx.InvalidURL, httpx.HTTPError) as error:
            return _unanswered(target, path, limit, error)

    async def _read(self, url: str, sent: bytes | None, limit: int) -> Reply | Answer:
        method, headers = "GET", _HEADERS
        if sent is not None:
            method, headers = "POST", {**_HEADERS, "Content-Type": "application/json"}
        request = httpx.Request(
            method, url, headers=headers, content=sent, extensions={LIMIT: limit}
        )
        answer = await self._transport.handle_async_request(request)
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            return _malformed(url, "has a Content-Encoding that was not asked for")
        return Reply(answer.status_code, answer.content)


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _unanswered(target: ProbeTarget, path: str, limit: int, error: Exception) -> Answer:
    """What it means that there is no reply."""
    where = f"{_host(target.address)}:{target.port}"
    said = quoted(str(error)) or type(error).__name__
    match error:
        case TimeoutError() | httpx.TimeoutException():
            told = f"no answer from {where}{path} within {target.timeout_seconds:g} s"
            return Answer(None, AnswerReason.TIMED_OUT, told)
        case BodyTooLarge():
            return _malformed(f"http://{where}{path}", f"is larger than {limit} bytes")
        case httpx.InvalidURL():
            return Answer(None, AnswerReason.MALFORMED, f"{path!r} is no URL: {error}")
        case Disconnected():
            told = f"{where} closed the connection unanswered"
            return Answer(None, AnswerReason.REFUSED, told)
        case httpx.ProtocolError():
            told = f"what listens on port {target.port} does not speak HTTP: {said}"
            return Answer(None, AnswerReason.WRONG_PROTOCOL, told)
        case _:
            return Answer(None, AnswerReason.REFUSED, f"cannot connect to {where}: {said}")


def _malformed(url: str, why: str) -> Answer:
    return Answer(None, AnswerReason.MALFORMED, f"the answer of {url} {why}")


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
