"""Unary gRPC calls to untrusted model servers.

Calls use the pod's address. A channel is kept while its server answers. Otherwise it
is dropped: gRPC would wait for its own reconnect backoff of a second or more, although the next
poll of a starting model is due in a tenth of that. Each channel connects through a relay, because
gRPC itself reads without a limit. The relay also makes the TLS connection.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from moorage_operator.probe.driver import ANSWER_LIMIT_BYTES
from moorage_operator.probe.reading import wire_budget
from moorage_operator.probe.reading.aside import aside
from moorage_operator.probe.reading.wire_budget import TooManyFields
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import Access, ProbeTarget
from moorage_operator.values.words import quoted

from .credentials import Credentials
from .relay import Connections, Relay, plaintext
from .secured_answers import answers_plainly, breaks_off, needs_tls, unauthorized, where_is
from .tls import NotTrusted, Secured, speaks_http2, speaks_tls

CHANNELS = 256
"""The number of kept channels; each takes four file descriptors with its relay."""

DRAIN_SECONDS = 60.0
"""The longest deadline of a query. A dropped channel without calls is closed at once."""

_OPTIONS = (
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # Otherwise the backoff of a dropped channel persists in the process-wide pool of subchannels.
    ("grpc.use_local_subchannel_pool", 1),
)

_NOBODY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

# A server that does not answer in plaintext may wait for TLS, or break off.
_UNANSWERED = frozenset({AnswerReason.REFUSED, AnswerReason.WRONG_PROTOCOL})

_LineKey = tuple[str, Access | None]

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call, before it is known how it is sent."""

    method: str
    request: Any
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class _Line:
    """A channel and the relay that it connects through."""

    channel: grpc.aio.Channel
    relay: Relay

    async def close(self, grace: float | None) -> None:
        await self.channel.close(grace)
        await self.relay.close()


class GrpcChannels:
    """Queries servers over gRPC.

    Args:
        credentials: The trusted CAs and the tokens of secured servers.
        answer_limit_bytes: The largest answer that is accepted.
    """

    def __init__(
        self,
        credentials: Credentials | None = None,
        answer_limit_bytes: int = ANSWER_LIMIT_BYTES,
    ) -> None:
        self._credentials = credentials or Credentials()
        self._limit = answer_limit_bytes
        self._options = (*_OPTIONS, ("grpc.max_receive_message_length", answer_limit_bytes))
        self._lines: OrderedDict[_LineKey, _Line] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(
        self,
        target: ProbeTarget,
        method: str,
        request: Any,
        reply: type[M],
        limit_bytes: int | None = None,
    ) -> M | Answer:
        """Call `package.Service/Method` and return the reply, or why there is none.

        Args:
            target: The replica.
            method: The method.
            request: The message to send.
            reply: The type of the answer.
            limit_bytes: A lower limit for this answer, which the relay enforces.
        """
        asked = _Asked(method, request, self._limit if limit_bytes is None else limit_bytes)
        data = await self._ask(target, asked)
        if isinstance(data, Answer):
            return data
        try:
            return await aside(len(data), _parsed, reply, data)
        except (DecodeError, TooManyFields) as error:
            message = quoted(f"{method}: the answer cannot be read: {error}")
            return Answer(None, AnswerReason.MALFORMED, message)

    async def _ask(self, target: ProbeTarget, asked: "_Asked") -> bytes | Answer:
        """Ask with each token until one is accepted, and with a changed CA."""
        access = target.access
        if access is None:
            return await self._explained(target, await self._call(target, asked, ""))
        tokens = await self._credentials.tokens(access)
        tried: list[str] = []
        while tokens:
            for token in tokens:
                tried.append(token)
                got = await self._trusting(target, access, asked, token)
                if not isinstance(got, Answer) or got.reason is not AnswerReason.UNAUTHORIZED:
                    self._credentials.accepted(access, token)
                    return await self._explained(target, got)
            tokens = await self._credentials.more_tokens(access, tried)
        return unauthorized(asked.method, self._credentials.missing_token(access))

    async def _trusting(
        self, target: ProbeTarget, access: Access, asked: "_Asked", token: str
    ) -> bytes | Answer:
        ways = await self._ways(access)
        got = await self._call(target, asked, token)
        if not isinstance(got, Answer) or got.reason is not AnswerReason.NOT_TRUSTED:
            return got
        await self._credentials.renew_trust(access)
        # Another query may have read the changed Secret meanwhile.
        return await self._call(target, asked, token) if await self._ways(access) != ways else got

    async def _ways(self, access: Access) -> Sequence[Secured]:
        with suppress(NotTrusted):  # the relay reports it
            return await self._credentials.secured(access, "h2")
        return ()

    async def _explained(self, target: ProbeTarget, got: bytes | Answer) -> bytes | Answer:
        """Find out whether a failed connection is due to TLS on one side only."""
        if not isinstance(got, Answer):
            return got
        secured = _is_secured(target)
        at = target.address, target.way.port
        if secured and got.reason is AnswerReason.TLS_MISMATCH:
            return answers_plainly(target) if await speaks_http2(*at) else got
        if not secured and got.reason in _UNANSWERED and await speaks_tls(*at):
            return needs_tls(target)
        return got

    async def _call(self, target: ProbeTarget, asked: "_Asked", token: str) -> bytes | Answer:
        method, request = asked.method, asked.request
        line = self._line(target)
        call = line.channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=None,  # bytes: their fields are counted before parsing
        )
        metadata = (("authorization", f"Bearer {token}"),) if token else None
        line.relay.begin(asked.limit_bytes)
        try:
            data: bytes = await call(request, timeout=target.timeout_seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if line.relay.exceeded or error.code() in _NOBODY:
                self._drop(_line_key(target))
            return _meaning(target, method, error, line.relay)
        finally:
            line.relay.end()
        return data

    async def close(self) -> None:
        """Close all channels."""
        lines = list(self._lines.values())
        self._lines.clear()
        await asyncio.gather(*(line.close(None) for line in lines), *self._closing)

    def _line(self, target: ProbeTarget) -> _Line:
        key = _line_key(target)
        line = self._lines.pop(key, None)
        if line is None:
            relay = Relay(target.address, target.way.port, self._connections(target.access))
            options = (*self._options, ("grpc.default_authority", where_is(target)))
            line = _Line(grpc.aio.insecure_channel(relay.address, options=options), relay)
        self._lines[key] = line
        while len(self._lines) > CHANNELS:
            self._drop(next(iter(self._lines)))
        return line

    def _connections(self, access: Access | None) -> Connections:
        if access is None or not access.tls_secret:
            return plaintext
        return lambda: self._credentials.secured(access, "h2")

    def _drop(self, key: _LineKey) -> None:
        line = self._lines.pop(key, None)
        if line is not None:
            # Other calls on the channel end by their own deadlines. Closing it at once would
            # cancel them and the tasks that wait for them.
            task = asyncio.get_running_loop().create_task(line.close(DRAIN_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _parsed(reply: type[M], data: bytes) -> M:
    wire_budget.check(data, reply.DESCRIPTOR)
    return reply.FromString(data)


def _line_key(target: ProbeTarget) -> _LineKey:
    """Identify a connection; another pod may get the address, with other Secrets."""
    return where_is(target), target.access


def _meaning(
    target: ProbeTarget, method: str, error: grpc.aio.AioRpcError, relay: Relay
) -> Answer:
    """Convert a gRPC error to an answer.

    Source: the gRPC status codes as model servers use them; NOT_FOUND for an unknown model,
    UNIMPLEMENTED for an unknown service.
    """
    code, details = error.code(), quoted(error.details() or "")
    where = f"{target.address}:{target.way.port}"
    if about_tls := _about_tls(target, relay):
        return about_tls
    if relay.exceeded:
        message = quoted(f"{method}: {relay.failure}")
        return Answer(None, AnswerReason.MALFORMED, message)
    # The status code for a server that does not use HTTP/2 varies; only the details show it.
    if "Failed parsing HTTP/2" in details:
        message = f"the server at {where} does not speak gRPC: {details}"
        return Answer(None, AnswerReason.WRONG_PROTOCOL, message)
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            verdict, reason = None, AnswerReason.REFUSED
            message = f"{where}: {relay.failure or details}"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return _timed_out(target, method)
        case grpc.StatusCode.UNIMPLEMENTED:
            verdict, reason = None, AnswerReason.WRONG_PROTOCOL
            message = f"the gRPC server at {where} has no {method}"
        case grpc.StatusCode.UNAUTHENTICATED if target.access is not None:
            verdict, reason = False, AnswerReason.UNAUTHORIZED
            message = f"{method} requires a token"
        case grpc.StatusCode.NOT_FOUND:
            verdict, reason, message = False, AnswerReason.MODEL_NOT_FOUND, details
        case grpc.StatusCode.RESOURCE_EXHAUSTED | grpc.StatusCode.INTERNAL:
            verdict, reason = None, AnswerReason.MALFORMED
            message = f"{method}: {code.name}: {details}"
        case _:
            verdict, reason = False, AnswerReason.NOT_READY
            message = details or f"{method} failed with {code.name}"
    return Answer(verdict, reason, message)


def _about_tls(target: ProbeTarget, relay: Relay) -> Answer | None:
    if relay.reason is None:
        return None
    if relay.reason is AnswerReason.NOT_TRUSTED:
        return Answer(None, AnswerReason.NOT_TRUSTED, relay.failure)
    return breaks_off(target, relay.failure) if _is_secured(target) else needs_tls(target)


def _is_secured(target: ProbeTarget) -> bool:
    return target.access is not None and bool(target.access.tls_secret)


def _timed_out(target: ProbeTarget, method: str) -> Answer:
    where = f"{target.address}:{target.way.port}"
    message = f"no answer from {where} to {method} within {target.timeout_seconds:g} s"
    return Answer(None, AnswerReason.TIMED_OUT, message)
