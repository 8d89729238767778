"""One HTTP connection: requests in, responses out in the same order.

::

    transport -> RequestReader -> waiting -> handler -> transport
                                  (one request is answered at a time)

A handler that answers at once needs no task. Otherwise one task awaits the response and streams
it, and is cancelled if the client leaves. Back-pressure works both ways: a client that does not
read its responses gets no further ones, and a client that sends too many requests ahead is not
read until they are answered.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol, cast

from moorage_runtime.frontends.http import encoding, negotiation, serialization
from moorage_runtime.frontends.http.faults import FaultRenderer
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.message import (
    Answer,
    Handler,
    HttpResponse,
    StreamingResponse,
    closing,
)
from moorage_runtime.frontends.http.reader import Phase, RequestReader
from moorage_runtime.frontends.http.received import Admission, Received, Refusal
from moorage_runtime.frontends.http.serialization import Dated
from moorage_runtime.frontends.pace import Pace
from moorage_runtime.values.budget import ByteBudget
from moorage_runtime.values.errors import RuntimeFault, ServerBusy

log = logging.getLogger(__name__)

_HEAD, _BODY = Phase.HEAD, Phase.BODY
_READING: Final = (_HEAD, _BODY)
# Below this size, a copy is cheaper than another call of the transport.
_JOIN_BYTES: Final = 64 * 1024
_DECODING_STATUS: Final = {
    "UnsupportedEncoding": 415,
    "PayloadTooLarge": 413,
    "InvalidRequest": 400,
}


class Server(Protocol):
    """What a connection needs from its server."""

    handler: Handler
    fault: FaultRenderer
    admission: Admission | None
    limits: Limits
    budget: ByteBudget
    compress_from_bytes: int | None
    # Buffer of all connections for heads and small bodies, consumed within each read.
    scratch: bytearray
    # Updated at every tick.
    now: float
    dated: Dated
    is_leaving: bool
    is_stopping: bool

    def opened(self, connection: "Connection") -> bool:
        """Count the connection; False if there are too many."""
        ...

    def closed(self, connection: "Connection") -> None:
        """Remove the connection."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of one client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._reader = RequestReader(server.limits, server.admission)
        # requests that have been read but not answered
        self._waiting = self._reader.received
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._is_write_paused = False
        self._is_read_paused = False
        self._is_ending = False  # the last response has been written, or the transport is closed
        self._can_write = asyncio.Event()
        self._can_write.set()
        # Times of the server's clock, with the precision of its ticks.
        self._phase = Phase.IDLE
        self._phase_since = server.now
        limits = server.limits
        self._pace = Pace(limits.body_grace_seconds, limits.body_bytes_per_second, server.now)
        # Bytes of requests that are not handled yet, as the server's budget counts them.
        self._held_bytes = 0
        self._write_paused_since = 0.0
        self._give_up_at = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a request is being read or answered."""
        return self._task is not None or bool(self._waiting) or self._reader.phase in _READING

    # Transport callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, or refuse the client if there are too many connections."""
        # a cast, because uvloop's transports do not extend those of asyncio
        self._transport = cast("asyncio.Transport", transport)
        if not self._server.opened(self):
            limit = self._server.limits.connections
            self._reader.refuse(
                503, f"the server has {limit} open connections, the maximum: try again later"
            )
            self._take()

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:  # noqa: ARG002 - our buffers have a fixed size
        """The buffer for the next bytes: the rest of a large body, or scratch memory."""
        direct = self._reader.direct
        return self._server.scratch if direct is None else direct

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes, and handle the requests that they complete."""
        reader = self._reader
        before = len(self._waiting)
        if reader.direct is not None:
            reader.filled(nbytes)
        else:
            reader.feed(memoryview(self._server.scratch)[:nbytes])
        is_next = len(self._waiting) > before
        if self._held_bytes or reader.phase is _BODY:
            self._count_held(before)
        if self._waiting:
            self._take()
        if reader.phase is not self._phase or (is_next and reader.phase is _BODY):
            self._enter(reader.phase)
        if reader.awaits_continue and not self._waiting and self._task is None:
            self._continue()

    def eof_received(self) -> bool:
        """The client has closed its side; like other servers, treat it as gone."""
        self._abandon()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason is irrelevant
        """Cancel the work for this client."""
        self._abandon()
        self._server.closed(self)

    def pause_writing(self) -> None:
        """The client reads more slowly than the server writes."""
        self._is_write_paused = True
        self._write_paused_since = self._server.now
        self._can_write.clear()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_write_paused = False
        self._can_write.set()
        self._advance()

    # Called by the server.

    def tick(self, now: float) -> None:
        """Enforce the deadlines; called periodically."""
        limits, reader = self._server.limits, self._reader
        waited = now - self._phase_since
        if self._give_up_at:
            if now > self._give_up_at:
                self._transport.abort()
        elif self._is_write_paused and now - self._write_paused_since > limits.write_seconds:
            log.info("closing a connection: the client does not read its response")
            self._transport.abort()
        elif self._is_read_paused or self._is_ending:
            return
        elif reader.phase is _HEAD and waited > limits.head_seconds:
            self._time_out("the headers")
        elif reader.phase is _BODY:
            if self._pace.is_too_slow(now, reader.body_received):
                self._time_out("the body")
        elif not self.is_busy and waited > self._patience():
            self._end()

    def is_evictable(self, seconds: float) -> bool:
        """Whether the client has not completed a head for this time and waits for no response."""
        is_answering = self._task is not None or bool(self._waiting)
        is_reading_body = self._reader.phase is _BODY
        return not (is_answering or is_reading_body) and (
            self._server.now - self._phase_since > seconds
        )

    def abort(self) -> None:
        """Close at once."""
        self._abandon()
        self._transport.abort()

    # Requests.

    def _patience(self) -> float:
        """How long the connection is kept without a request."""
        limits = self._server.limits
        return limits.stop_idle_seconds if self._server.is_stopping else limits.idle_seconds

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._phase_since = self._server.now
        self._pace.restart(self._server.now, self._reader.body_received)

    def _time_out(self, what: str) -> None:
        self._reader.refuse(408, f"{what} did not arrive in time")
        self._take()

    def _count_held(self, known: int) -> None:
        """Count the bodies that are arriving or waiting; refuse the new ones if it is too much.

        Args:
            known: How many of the waiting requests have been counted before.
        """
        reader = self._reader
        size = reader.body_received if reader.phase is _BODY else 0
        for waiting in self._waiting:
            if isinstance(waiting, Received):
                size += len(waiting.request.body)
        try:
            self._server.budget.resize(self._held_bytes, size)
        except ServerBusy as error:
            while len(self._waiting) > known:
                self._waiting.pop()
            reader.refuse(503, error.message, serialization.RETRY_SOON)
        else:
            self._held_bytes = size

    def _release_held(self) -> None:
        self._server.budget.give_back(self._held_bytes)
        self._held_bytes = 0

    def _continue(self) -> None:
        self._reader.awaits_continue = False
        self._transport.write(serialization.CONTINUE)

    def _take(self) -> None:
        self._phase_since = self._server.now
        self._advance()
        if (
            len(self._waiting) > self._server.limits.pipelined_requests
            and not self._is_read_paused
        ):
            self._is_read_paused = True
            self._transport.pause_reading()

    def _advance(self) -> None:
        """Answer waiting requests until one takes time."""
        waiting = self._waiting
        while waiting and self._task is None:
            if self._is_write_paused or self._is_ending:
                return
            next_one = waiting.popleft()
            if self._held_bytes:
                self._count_held(len(waiting))
            if isinstance(next_one, Received):
                self._start(next_one)
            else:
                self._write_refusal(next_one)
        if self._is_read_paused and not self._waiting and not self._is_ending:
            self._is_read_paused = False
            self._enter(self._phase)
            self._transport.resume_reading()
        if self._task is None and not self._is_ending and self._reader.awaits_continue:
            self._continue()

    def _start(self, received: Received) -> None:
        if received.is_coded:
            self._spawn(self._decode_and_answer(received), received)
            return
        server = self._server
        try:
            answer = server.handler(received.request)
        except Exception:
            log.exception("a handler raised an exception", extra={"path": received.request.path})
            answer = self._internal_error(received)
        if isinstance(answer, HttpResponse):
            if server.compress_from_bytes is None or not self._coding_for(answer, received):
                self._write_response(answer, received)
                return
            answer = _already(answer)
        elif isinstance(answer, StreamingResponse):
            answer = _already(answer)
        self._spawn(answer, received)

    def _spawn(self, answer: Awaitable[Answer], received: Received) -> None:
        self._task = asyncio.get_running_loop().create_task(self._finish(answer, received))

    async def _decode_and_answer(self, received: Received) -> Answer:
        request = received.request
        try:
            await negotiation.decode(request, self._server.limits.body_bytes)
        except RuntimeFault as error:
            status = _DECODING_STATUS[error.reason]
            answer = self._server.fault(request.path, status, error.message)
            if status == 415:
                answer.headers = ((b"Accept-Encoding", encoding.ACCEPTED),)
            return answer
        decoded = self._server.handler(request)
        return decoded if isinstance(decoded, Answer) else await decoded

    async def _finish(self, awaitable: Awaitable[Answer], received: Received) -> None:
        """Await one response and send it; the task of the connection."""
        try:
            answer = await awaitable
        except asyncio.CancelledError:
            if self._is_ending:
                raise
            # the handler was cancelled, but this client still waits
            answer = self._internal_error(received)
        except Exception:
            log.exception("a handler raised an exception", extra={"path": received.request.path})
            answer = self._internal_error(received)
        try:
            if isinstance(answer, StreamingResponse):
                await self._stream(answer, received)
            else:
                coding = self._coding_for(answer, received)
                if coding:
                    answer = await negotiation.encode(answer, coding)
                self._write_response(answer, received)
        except Exception:
            # The status may have been sent, so only a truncated response can tell the client.
            log.exception("a response could not be sent", extra={"path": received.request.path})
            self.abort()
        self._task = None
        self._advance()

    def _internal_error(self, received: Received) -> HttpResponse:
        return self._server.fault(received.request.path, 500, "internal error")

    def _coding_for(self, answer: HttpResponse, received: Received) -> str:
        return negotiation.choose(answer, received.request, self._server.compress_from_bytes)

    # Answers.

    def _write_response(self, answer: HttpResponse, received: Received) -> None:
        body = answer.body
        if received.is_plain and isinstance(body, bytes) and len(body) <= _JOIN_BYTES:
            server = self._server
            if not server.is_leaving:
                self._phase_since = server.now
                self._transport.write(serialization.encode_small(answer, body, server.dated))
                return
        self._write_parts(answer, received)

    def _write_parts(self, answer: HttpResponse, received: Received) -> None:
        parts = serialization.body_parts(answer.body)
        size = sum(map(len, parts))
        keep_alive = self._may_keep_alive(received)
        head = serialization.encode_head(
            answer,
            framing=serialization.content_length(size),
            connection=serialization.connection_line(
                keep_alive=keep_alive, is_http10=received.is_http10
            ),
            date=self._server.dated.line,
        )
        if received.is_head:
            self._transport.write(head)
        elif size <= _JOIN_BYTES:
            self._transport.write(b"".join((head, *parts)))
        else:
            self._transport.write(head)
            for part in parts:
                self._transport.write(part)
        self._wrap_up(keep_alive=keep_alive)

    async def _stream(self, answer: StreamingResponse, received: Received) -> None:
        keep_alive = self._may_keep_alive(received) and not received.is_http10
        head = serialization.encode_head(
            answer,
            framing=b"" if received.is_http10 else serialization.CHUNKED,
            connection=serialization.connection_line(
                keep_alive=keep_alive, is_http10=received.is_http10
            ),
            date=self._server.dated.line,
        )
        encode: Callable[[bytes], bytes] = serialization.encode_chunk
        if received.is_http10:
            encode = bytes
        async with closing(answer.chunks) as chunks:
            self._transport.write(head)
            if not received.is_head:
                await self._write_chunks(chunks, encode)
        if not received.is_http10 and not received.is_head:
            self._transport.write(serialization.LAST_CHUNK)
        self._wrap_up(keep_alive=keep_alive)

    async def _write_chunks(
        self, chunks: AsyncIterator[bytes], encode: Callable[[bytes], bytes]
    ) -> None:
        async for chunk in chunks:
            if chunk:
                self._transport.write(encode(chunk))
            if self._is_write_paused:
                await self._can_write.wait()

    def _write_refusal(self, refusal: Refusal) -> None:
        answer = self._server.fault(refusal.path, refusal.status, refusal.message)
        body = b"".join(serialization.body_parts(answer.body))
        answer.headers = (*answer.headers, *refusal.headers)
        head = serialization.encode_head(
            answer,
            framing=serialization.content_length(len(body)),
            connection=serialization.connection_line(keep_alive=False, is_http10=False),
            date=self._server.dated.line,
        )
        self._transport.write(head + body)
        self._linger()

    def _may_keep_alive(self, received: Received) -> bool:
        return received.keep_alive and not self._server.is_leaving

    def _wrap_up(self, *, keep_alive: bool) -> None:
        self._phase_since = self._server.now
        if not keep_alive:
            if self._reader.phase in _READING or self._waiting:
                self._linger()  # unread input is in transit
            else:
                self._end()

    # Closing.

    def _linger(self) -> None:
        """Send pending data, discard input for a while, then close.

        Closing a socket with unread input resets it, which may destroy the response before the
        client has read it (RFC 9112, 9.6).
        """
        self._is_ending = True
        self._waiting.clear()
        self._release_held()
        self._reader.stop()
        if self._is_read_paused:
            self._is_read_paused = False
            self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._give_up_at = self._server.now + self._server.limits.linger_seconds
        else:
            self._transport.close()

    def _end(self) -> None:
        self._is_ending = True
        self._give_up_at = self._server.now + self._server.limits.write_seconds
        self._waiting.clear()
        self._release_held()
        self._transport.close()

    def _abandon(self) -> None:
        """The connection is lost; cancel everything."""
        self._is_ending = True
        self._give_up_at = self._server.now + self._server.limits.write_seconds
        self._waiting.clear()
        self._release_held()
        self._can_write.set()
        if self._task is not None:
            self._task.cancel()


async def _already(answer: Answer) -> Answer:
    return answer
