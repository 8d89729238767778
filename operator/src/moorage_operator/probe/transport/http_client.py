"""HTTP requests to untrusted model servers.

Requests use the pod's address, without proxies, redirects or compression. The size of the body and
the time are limited.
"""

import asyncio
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import Any, cast

import httpx
import msgspec

from moorage_operator.probe.driver import (
    ANSWER_LIMIT_BYTES,
    HEALTH_LIMIT_BYTES,
    INFERENCE_LIMIT_BYTES,
)
from moorage_operator.probe.reading import json_text
from moorage_operator.probe.reading.cost import spending
from moorage_operator.probe.reading.elements import ELEMENT_LIMIT
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import Access, ProbeTarget
from moorage_operator.values.words import MESSAGE_LIMIT, quoted

from .credentials import Credentials
from .http_transport import (
    LIMIT,
    SECURED,
    BodyTooLarge,
    Disconnected,
    HandshakeFailed,
    OneConnectionEach,
    TlsSpoken,
)
from .secured_answers import answers_plainly, breaks_off, needs_tls, unauthorized, where_is
from .tls import NotTrusted, Secured, speaks_tls

PLAIN_SECONDS = 1.0
"""The deadline of a query that finds out whether a server without TLS speaks plain HTTP."""

_HEADERS = {
    "Accept": "application/json",
    # Compressed answers are rejected below: a few KiB may expand to gigabytes.
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "moorage-operator",
}


@dataclass(frozen=True)
class Reply:
    """A response of a server.

    Attributes:
        code: The status code.
        body: The whole body.
        value_limit: The largest number of JSON values in the body.
    """

    code: int
    body: bytes
    value_limit: int = json_text.VALUE_LIMIT

    @cached_property
    def document(self) -> dict[str, Any]:
        """The body as a JSON object, {} if it is something else; decoded once."""
        try:
            found = spending(json_text.decode, self.body, value_limit=self.value_limit)
        except json_text.NotJson:
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    @property
    def error(self) -> str:
        """The `error` of a JSON error body as one printable line, "" if there is none."""
        message = self.document.get("error")
        return quoted(message) if isinstance(message, str) else ""

    @property
    def is_success(self) -> bool:
        """Whether the status reports a success."""
        return HTTPStatus.OK <= self.code < HTTPStatus.MULTIPLE_CHOICES

    @property
    def is_redirect(self) -> bool:
        """Whether the response is a redirect, which is not followed."""
        return HTTPStatus.MULTIPLE_CHOICES <= self.code < HTTPStatus.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request, before and after it is known how it is sent."""

    path: str
    body: bytes | None
    limit: int
    secured: Secured | None = None
    token: str = field(default="", repr=False)


class HttpClient:
    """Queries servers over HTTP/1.1.

    It uses httpx's transport without its client, because a poll needs no cookies or redirects.

    Args:
        credentials: The trusted CAs and the tokens of secured servers.
    """

    def __init__(self, credentials: Credentials | None = None) -> None:
        self._transport = OneConnectionEach()
        self._credentials = credentials or Credentials()

    async def get(self, target: ProbeTarget, path: str) -> Reply | Answer:
        """Return the reply, or why there is none."""
        return await self._ask(target, path, None, ANSWER_LIMIT_BYTES)

    async def ask_health(self, target: ProbeTarget, path: str) -> Reply | Answer:
        """Return the reply of a health endpoint, or why there is none."""
        return await self._ask(target, path, None, HEALTH_LIMIT_BYTES)

    async def post(self, target: ProbeTarget, path: str, document: object) -> Reply | Answer:
        """Return the reply to a JSON document, or why there is none."""
        return await self._ask(target, path, msgspec.json.encode(document), ANSWER_LIMIT_BYTES)

    async def infer(self, target: ProbeTarget, document: object) -> Reply | Answer:
        """Return the reply to an inference request, which may be larger."""
        return await self.request(target, target.way.infer_path, document)

    async def request(self, target: ProbeTarget, path: str, document: object) -> Reply | Answer:
        """Return the reply to a POST of a JSON document, or to a GET without one; as large."""
        sent = None if document is None else msgspec.json.encode(document)
        return await self._ask(target, path, sent, INFERENCE_LIMIT_BYTES)

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    async def _ask(
        self, target: ProbeTarget, path: str, body: bytes | None, limit: int
    ) -> Reply | Answer:
        asked = _Asked(path, body, limit)
        if target.access is not None:
            return await self._ask_secured(target, target.access, asked)
        got = await self._attempt(target, asked)
        if _may_speak_tls(got) and await _has_tls(target):
            return needs_tls(target)
        return _settled(target, asked, got)

    async def _ask_secured(
        self, target: ProbeTarget, access: Access, asked: "_Asked"
    ) -> Reply | Answer:
        """Ask with TLS or a token; once more with what a changed Secret contains."""
        ways = await self._ways(access)
        got = await self._trusting(target, access, asked, ways)
        if isinstance(got, NotTrusted):
            await self._credentials.renew_trust(access)
            # Another query may have read the changed Secret meanwhile.
            renewed = await self._ways(access)
            if renewed != ways:
                got = await self._trusting(target, access, asked, renewed)
        plaintext = not access.tls_secret
        if not plaintext and isinstance(got, HandshakeFailed | TimeoutError):
            # Any answer in plaintext explains it; this query has no token and no body.
            brief = replace(target, timeout_seconds=min(target.timeout_seconds, PLAIN_SECONDS))
            if isinstance(
                await self._attempt(brief, _Asked(asked.path, None, asked.limit)), Reply
            ):
                return answers_plainly(target)
        if plaintext and _may_speak_tls(got) and await _has_tls(target):
            return needs_tls(target)
        return _settled(target, asked, got)

    async def _ways(self, access: Access) -> tuple[Secured, ...] | NotTrusted:
        """Return how to connect, or what is invalid in the Secret or the CA file."""
        try:
            return await self._credentials.secured(access, "http/1.1")
        except NotTrusted as error:
            return error

    async def _trusting(
        self,
        target: ProbeTarget,
        access: Access,
        asked: "_Asked",
        ways: tuple[Secured, ...] | NotTrusted,
    ) -> "Reply | Answer | Exception":
        """Ask with the CA, and with the previous one if that has changed."""
        if isinstance(ways, NotTrusted):
            return ways
        if not ways:
            return await self._with_tokens(target, access, asked)
        got = await self._with_tokens(target, access, replace(asked, secured=ways[0]))
        if isinstance(got, NotTrusted) and len(ways) > 1:
            before = replace(asked, secured=ways[1])
            former = await self._with_tokens(target, access, before)
            return got if isinstance(former, NotTrusted) else former
        return got

    async def _with_tokens(
        self, target: ProbeTarget, access: Access, asked: "_Asked"
    ) -> "Reply | Answer | Exception":
        """Ask with each token until one is accepted."""
        tokens = await self._credentials.tokens(access)
        tried: list[str] = []
        while tokens:
            for token in tokens:
                tried.append(token)
                got = await self._attempt(target, replace(asked, token=token))
                if not isinstance(got, Reply) or got.code != HTTPStatus.UNAUTHORIZED:
                    self._credentials.accepted(access, token)
                    return got
            tokens = await self._credentials.more_tokens(access, tried)
        why = self._credentials.missing_token(access)
        return unauthorized(f"HTTP 401 from {asked.path}", why)

    async def _attempt(self, target: ProbeTarget, asked: "_Asked") -> "Reply | Answer | Exception":
        """Send one request; return the exception if there is no reply."""
        try:
            async with asyncio.timeout(target.timeout_seconds):
                return await self._read(target, asked)
        except (TimeoutError, NotTrusted, httpx.InvalidURL, httpx.HTTPError) as error:
            return error

    async def _read(self, target: ProbeTarget, asked: "_Asked") -> Reply | Answer:
        scheme = "http" if asked.secured is None else "https"
        url = f"{scheme}://{where_is(target)}{asked.path}"
        limit = asked.limit
        method, headers = "GET", _HEADERS
        if asked.body is not None:
            method, headers = "POST", {**_HEADERS, "Content-Type": "application/json"}
        if asked.token:
            headers = {**headers, "Authorization": f"Bearer {asked.token}"}
        request = httpx.Request(
            method,
            url,
            headers=headers,
            content=asked.body,
            extensions={LIMIT: limit, SECURED: asked.secured},
        )
        answer = await self._transport.handle_async_request(request)
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            return _malformed(url, "has a Content-Encoding that was not requested")
        value_limit = ELEMENT_LIMIT if limit == INFERENCE_LIMIT_BYTES else json_text.VALUE_LIMIT
        return Reply(answer.status_code, answer.content, value_limit)


def _settled(
    target: ProbeTarget, asked: _Asked, got: Reply | Answer | Exception
) -> Reply | Answer:
    if isinstance(got, Exception):
        about_tls = _about_tls(target, got)
        return about_tls or _unanswered(target, asked.path, asked.limit, got)
    return got


async def _has_tls(target: ProbeTarget) -> bool:
    return await speaks_tls(target.address, target.way.port)


def _may_speak_tls(got: Reply | Answer | Exception) -> bool:
    """Whether a plaintext request may have met a TLS server: silence, an alert, or a hint."""
    if isinstance(got, Reply):
        return got.code == HTTPStatus.BAD_REQUEST and b"HTTPS" in got.body
    return isinstance(got, Disconnected)


def _unanswered(target: ProbeTarget, path: str, limit: int, error: Exception) -> Answer:
    """Convert a failed request to an answer."""
    where = where_is(target)
    details = quoted(str(error)) or type(error).__name__
    match error:
        case TimeoutError() | httpx.TimeoutException():
            message = f"no answer from {where}{path} within {target.timeout_seconds:g} s"
            return Answer(None, AnswerReason.TIMED_OUT, message)
        case BodyTooLarge():
            return _malformed(f"http://{where}{path}", f"is larger than {limit} bytes")
        case httpx.InvalidURL():
            return Answer(None, AnswerReason.MALFORMED, f"{path!r} is not a valid URL: {error}")
        case Disconnected():
            message = f"{where} closed the connection without an answer"
            return Answer(None, AnswerReason.REFUSED, message)
        case httpx.ProtocolError():
            message = f"the server on port {target.way.port} does not speak HTTP: {details}"
            return Answer(None, AnswerReason.WRONG_PROTOCOL, message)
        case _:
            return Answer(None, AnswerReason.REFUSED, f"cannot connect to {where}: {details}")


def _about_tls(target: ProbeTarget, error: Exception) -> Answer | None:
    match error:
        case NotTrusted():
            return Answer(None, AnswerReason.NOT_TRUSTED, str(error))
        case TlsSpoken():
            return needs_tls(target)
        case HandshakeFailed(is_foreign=True):
            return breaks_off(target, quoted(str(error)))
        case _:
            return None


def _malformed(url: str, why: str) -> Answer:
    return Answer(None, AnswerReason.MALFORMED, f"the answer of {url} {why}")


def judged_by_status(reply: Reply, path: str) -> Answer:
    """Judge the answer of a health endpoint by its status alone: 200 to 299 means yes."""
    if reply.is_success:
        return Answer(verdict=True, reason=AnswerReason.READY)
    message = reply.error or f"HTTP {reply.code} from {path}"
    if reply.is_redirect:
        message = f"HTTP {reply.code} from {path}: redirects are not followed"
    return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=message)


# Statuses of a server that rejects the request; they say nothing about its protocol.
_UNWILLING = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}
)


def rejection(reply: Reply, path: str) -> Answer:
    """Quote the server's error for a rejected inference request."""
    details = reply.error or quoted(reply.body[:MESSAGE_LIMIT].decode(errors="replace"))
    status = f"HTTP {reply.code} from {path}"
    return Answer(
        verdict=False,
        reason=AnswerReason.NOT_READY,
        message=f"{status}: {details}" if details else status,
    )


def refusal(reply: Reply, path: str, expected: str) -> Answer:
    """Convert a reply without the expected body to an answer.

    Args:
        reply: The reply.
        path: The path of the request.
        expected: The expected content of the body.
    """
    if reply.code in _UNWILLING or reply.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        message = reply.error or f"HTTP {reply.code} from {path}"
        return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=message)
    message = f"HTTP {reply.code} from {path} without {expected}"
    return Answer(None, AnswerReason.WRONG_PROTOCOL, message)
