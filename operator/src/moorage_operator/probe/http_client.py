"""One HTTP question to a model server that is not trusted.

By pod address, without proxies, redirects, compression or a body above 1 MiB, and within the
target's deadline. Stands between the drivers that speak HTTP and the transport.
"""

import asyncio
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import msgspec

from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.planned import ProbeTarget

from . import json_text
from .driver import ANSWER_LIMIT_BYTES, INFERENCE_LIMIT_BYTES, MESSAGE_LIMIT, quoted
from .http_response import NotHttp, TooLarge
from .http_transport import Disconnected, NotConnected, exchange

_HEADERS = (
    "Accept: application/json",
    # Compressed answers are refused below: a few KiB may expand to gigabytes.
    "Accept-Encoding: identity",
    "Connection: close",
    "User-Agent: moorage-operator",
)

_PATH_CHARACTERS = "/%:@!$&'()*+,;=?-._~[]"
"""What stands in a path or query as it is; the rest is percent-encoded (RFC 3986, section 3.3)."""


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
    """Asks servers over HTTP/1.1."""

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

    async def _ask(
        self, target: ProbeTarget, path: str, body: bytes | None, limit: int
    ) -> Reply | Answer:
        where = f"{_host(target.address)}:{target.port}"
        request = _encoded(where, path, body)
        try:
            async with asyncio.timeout(target.timeout_seconds):
                answer = await exchange(target.address, target.port, request, limit)
        except (TimeoutError, NotConnected, Disconnected, NotHttp, TooLarge) as error:
            return _unanswered(target, path, limit, error)
        if answer.values(b"content-encoding") not in ([], [b"identity"]):
            return _malformed(
                f"http://{where}{path}", "has a Content-Encoding that was not asked for"
            )
        return Reply(answer.status, answer.body)


def _encoded(where: str, path: str, body: bytes | None) -> bytes:
    """A request as it is sent: a GET, or a POST of a JSON body."""
    head = [f"{'GET' if body is None else 'POST'} {_percent_encoded(path)} HTTP/1.1"]
    head += [f"Host: {where}", *_HEADERS]
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + (body or b"")


@lru_cache(maxsize=1024)
def _percent_encoded(path: str) -> str:
    """A path without blanks, line ends and what else a request line cannot have."""
    return quote(path, safe=_PATH_CHARACTERS)


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _unanswered(target: ProbeTarget, path: str, limit: int, error: Exception) -> Answer:
    """What it means that there is no reply."""
    where = f"{_host(target.address)}:{target.port}"
    said = quoted(str(error)) or type(error).__name__
    match error:
        case TimeoutError():
            told = f"no answer from {where}{path} within {target.timeout_seconds:g} s"
            return Answer(None, AnswerReason.TIMED_OUT, told)
        case TooLarge():
            return _malformed(f"http://{where}{path}", f"is larger than {limit} bytes")
        case Disconnected():
            told = f"{where} closed the connection unanswered"
            return Answer(None, AnswerReason.REFUSED, told)
        case NotHttp():
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
