"""One HTTP connection: requests in, answers out in the same order.

::

    transport -> RequestReader -> waiting -> handler -> transport
                                  (one request is answered at a time)

A read that is one whole request, with the head of the one before, goes to the handler at once.
A handler that answers at once is served without a task. Otherwise one task awaits the answer and
streams it; when the client goes away, that task is cancelled. Back-pressure works both ways: a
client that does not read its answers gets no further ones, and a client that sends too many
requests ahead is not read until they are answered.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, cast

from moorage_runtime.errors import RuntimeFault
from moorage_runtime.frontends.http import encoding, negotiation, serialization
from moorage_runtime.frontends.http.message import (
    Answer,
    HttpResponse,
    StreamingResponse,
    closing,
)
from moorage_runtime.frontends.http.owner import Owner
from moorage_runtime.frontends.http.reader import Phase, RequestReader
from moorage_runtime.frontends.http.received import Received, Refusal

log = logging.getLogger(__name__)

_HEAD, _BODY = Phase.HEAD, Phase.BODY
_READING: Final = (_HEAD, _BODY)
# Below this, one copy is cheaper than one more call of the transport.
_JOIN_BYTES: Final = 64 * 1024
_DECODING_STATUS: Final = {
    "UnsupportedEncoding": 415,
    "PayloadTooLarge": 413,
    "InvalidRequest": 400,
}


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of one client."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._reader = RequestReader(owner.limits, owner.admission)
        # what the reader has read, until it is answered
        self._waiting = self._reader.received
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._is_write_paused = False
        self._is_read_paused = False
        self._is_ending = False  # the last answer is written, or the transport is gone
        self._can_write = asyncio.Event()
        self._can_write.set()
        # Times of the owner's clock, as exact as its ticks.
        self._phase = Phase.IDLE
        self._phase_since = owner.now
        self._write_paused_since = 0.0
        self._give_up_at = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a request is being read or answered."""
        return self._task is not None or bool(self._waiting) or self._reader.phase in _READING

    # Transport callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, or turn the client away when there are too many."""
        # a cast, because the transports of uvloop do not extend those of asyncio
        self._transport = cast("asyncio.Transport", transport)
        if not self._owner.opened(self):
            limit = self._owner.limits.connections
            self._reader.refuse(503, f"the server has its {limit} connections open already")
            self._take()

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:  # noqa: ARG002 - our buffers have their size
        """Where the next bytes go: the rest of a large body, or scratch memory."""
        direct = self._reader.direct
        return self._owner.scratch if direct is None else direct

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come; handle the requests that they complete."""
        reader = self._reader
        if reader.direct is not None:
            reader.filled(nbytes)
        else:
            scratch = self._owner.scratch
            if self._task is None and not (self._is_write_paused or self._is_ending):
                # Mostly a client waits for its answer, and then asks in the same way again.
                received = reader.read_whole(scratch, nbytes)
                if received is not None:
                    self._start(received)
                    return
            reader.feed(memoryview(scratch)[:nbytes])
        if self._waiting:
            self._take()
        if reader.phase is not self._phase:
            self._enter(reader.phase)
        if reader.awaits_continue and not self._waiting and self._task is None:
            self._continue()

    def eof_received(self) -> bool:
        """The client is done; as other servers do, take it for gone."""
        self._abandon()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason changes nothing
        """Stop the work for this client."""
        self._abandon()
        self._owner.closed(self)

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        self._is_write_paused = True
        self._write_paused_since = self._owner.now
        self._can_write.clear()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_write_paused = False
        self._can_write.set()
        self._advance()

    # Calls of the server.

    def tick(self, now: float) -> None:
        """Enforce the deadlines; called every so often."""
        limits, reader = self._owner.limits, self._reader
        waited = now - self._phase_since
        if self._give_up_at:
            if now > self._give_up_at:
                self._transport.abort()
        elif self._is_write_paused and now - self._write_paused_since > limits.write_seconds:
            log.info("closing a connection whose client does not read its answer")
            self._transport.abort()
        elif self._is_read_paused or self._is_ending:
            return
        elif reader.phase is _HEAD and waited > limits.head_seconds:
            self._time_out("the headers")
        elif reader.phase is _BODY:
            allowance = reader.body_received / limits.body_bytes_per_second
            if waited > limits.body_grace_seconds + allowance:
                self._time_out("the body")
        elif not self.is_busy and waited > limits.idle_seconds:
            self._end()

    def close_when_rested(self) -> None:
        """The server stops: go now if nothing is in progress, else after the answer."""
        if not self.is_busy and not self._is_ending:
            self._end()

    def abort(self) -> None:
        """Go at once."""
        self._abandon()
        self._transport.abort()

    # Requests.

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._phase_since = self._owner.now

    def _time_out(self, what: str) -> None:
        self._reader.refuse(408, f"{what} did not arrive in time")
        self._take()

    def _continue(self) -> None:
        self._reader.awaits_continue = False
        self._transport.write(serialization.CONTINUE)

    def _take(self) -> None:
        self._phase_since = self._owner.now
        self._advance()
        if len(self._waiting) > self._owner.limits.pipelined_requests and not self._is_read_paused:
            self._is_read_paused = True
            self._transport.pause_reading()

    def _advance(self) -> None:
        """Answer what waits, until an answer takes time."""
        waiting = self._waiting
        while waiting and self._task is None:
            if self._is_write_paused or self._is_ending:
                return
            next_one = waiting.popleft()
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
        if received.head.is_coded:
            self._spawn(self._decode_and_answer(received), received)
            return
        owner = self._owner
        try:
            answer = owner.handler(received.request)
        except Exception:
            log.exception("a handler raised", extra={"path": received.request.path})
            answer = self._internal_error(received)
        if isinstance(answer, HttpResponse):
            if owner.compress_from_bytes is None or not self._coding_for(answer, received):
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
            await negotiation.decode(request, self._owner.limits.body_bytes)
        except RuntimeFault as error:
            status = _DECODING_STATUS[error.reason]
            answer = self._owner.fault(request.path, status, error.message)
            if status == 415:
                answer.headers = ((b"Accept-Encoding", encoding.ACCEPTED),)
            return answer
        decoded = self._owner.handler(request)
        return decoded if isinstance(decoded, Answer) else await decoded

    async def _finish(self, awaitable: Awaitable[Answer], received: Received) -> None:
        """Await one answer and send it; the task of the connection."""
        try:
            answer = await awaitable
        except asyncio.CancelledError:
            if self._is_ending:
                raise
            # the handler gave up what it awaited; this client still waits
            answer = self._internal_error(received)
        except Exception:
            log.exception("a handler raised", extra={"path": received.request.path})
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
            # The status may be sent; only an answer without an end can tell the client.
            log.exception("an answer could not be sent", extra={"path": received.request.path})
            self.abort()
        self._task = None
        self._advance()

    def _internal_error(self, received: Received) -> HttpResponse:
        return self._owner.fault(received.request.path, 500, "internal error")

    def _coding_for(self, answer: HttpResponse, received: Received) -> str:
        return negotiation.choose(answer, received.request, self._owner.compress_from_bytes)

    # Answers.

    def _write_response(self, answer: HttpResponse, received: Received) -> None:
        body = answer.body
        if received.head.is_plain and isinstance(body, bytes) and len(body) <= _JOIN_BYTES:
            owner = self._owner
            if not owner.is_leaving:
                self._phase_since = owner.now
                self._transport.write(serialization.encode_small(answer, body, owner.dated))
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
                keep_alive=keep_alive, is_http10=received.head.is_http10
            ),
            date=self._owner.dated.line,
        )
        if received.head.method == "HEAD":
            self._transport.write(head)
        elif size <= _JOIN_BYTES:
            self._transport.write(b"".join((head, *parts)))
        else:
            self._transport.write(head)
            for part in parts:
                self._transport.write(part)
        self._wrap_up(keep_alive=keep_alive)

    async def _stream(self, answer: StreamingResponse, received: Received) -> None:
        keep_alive = self._may_keep_alive(received) and not received.head.is_http10
        head = serialization.encode_head(
            answer,
            framing=b"" if received.head.is_http10 else serialization.CHUNKED,
            connection=serialization.connection_line(
                keep_alive=keep_alive, is_http10=received.head.is_http10
            ),
            date=self._owner.dated.line,
        )
        encode: Callable[[bytes], bytes] = serialization.encode_chunk
        if received.head.is_http10:
            encode = bytes
        async with closing(answer.chunks) as chunks:
            self._transport.write(head)
            if received.head.method != "HEAD":
                await self._write_chunks(chunks, encode)
        if not received.head.is_http10 and received.head.method != "HEAD":
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
        answer = self._owner.fault(refusal.path, refusal.status, refusal.message)
        body = b"".join(serialization.body_parts(answer.body))
        answer.headers = (*answer.headers, *refusal.headers)
        head = serialization.encode_head(
            answer,
            framing=serialization.content_length(len(body)),
            connection=serialization.connection_line(keep_alive=False, is_http10=False),
            date=self._owner.dated.line,
        )
        self._transport.write(head + body)
        self._linger()

    def _may_keep_alive(self, received: Received) -> bool:
        return received.head.keep_alive and not self._owner.is_leaving

    def _wrap_up(self, *, keep_alive: bool) -> None:
        self._phase_since = self._owner.now
        if not keep_alive:
            if self._reader.phase in _READING or self._waiting:
                self._linger()  # input that nobody wants is on its way
            else:
                self._end()

    # The end.

    def _linger(self) -> None:
        """Send what is written and drop further input for a while, then close.

        Closing a socket with unread input resets it, which may destroy the answer before the
        client has read it (RFC 9112, 9.6).
        """
        self._is_ending = True
        self._waiting.clear()
        self._reader.stop()
        if self._is_read_paused:
            self._is_read_paused = False
            self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._give_up_at = self._owner.now + self._owner.limits.linger_seconds
        else:
            self._transport.close()
        self._owner.rested()

    def _end(self) -> None:
        self._is_ending = True
        self._give_up_at = self._owner.now + self._owner.limits.write_seconds
        self._waiting.clear()
        self._transport.close()
        self._owner.rested()

    def _abandon(self) -> None:
        """Nobody will read an answer."""
        self._is_ending = True
        self._give_up_at = self._owner.now + self._owner.limits.write_seconds
        self._waiting.clear()
        self._can_write.set()
        if self._task is not None:
            self._task.cancel()


async def _already(answer: Answer) -> Answer:
    return answer
