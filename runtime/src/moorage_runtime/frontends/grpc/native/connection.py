"""One HTTP/2 connection: bytes in, calls, bytes out.

::

    transport -> ngh2 -> events -> Call
    transport <- ngh2 <- reply, send, finish

libnghttp2, behind ngh2, knows HTTP/2: frames, header compression, windows, stream states, and the
limits on what a hostile client may do. Here its events become calls, and what it wants to send is
written, never more than the client takes.

Source: RFC 9113; "gRPC over HTTP2".
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Final, cast

import ngh2

from moorage_runtime.frontends.grpc import status
from moorage_runtime.frontends.grpc.methods import GrpcFault
from moorage_runtime.frontends.grpc.native import replies, sockets
from moorage_runtime.frontends.grpc.native.call import Call
from moorage_runtime.frontends.grpc.native.framing import Frame
from moorage_runtime.frontends.grpc.native.head import (
    HttpRefusal,
    check_size,
    metadata,
    parse_head,
)
from moorage_runtime.frontends.grpc.native.owner import Owner

log = logging.getLogger(__name__)

# One write to the transport; a client that takes no more is noticed after it.
_WRITE_BYTES: Final = 1024 * 1024
# Asked of a client while the server drains: what it sent before the answer came before the end.
_DRAIN_PING: Final = b"draining"
_DRAIN_SECONDS: Final = 1.0
# How much of an unknown method's name is repeated.
_SHOWN_PATH_BYTES: Final = 200


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of one client."""

    def __init__(self, owner: Owner) -> None:
        self.limits = owner.limits
        self._owner = owner
        self._h2 = replies.make_session(owner.limits)
        self._calls: dict[int, Call] = {}
        self._fresh: list[Call] = []  # begun by this read; their deadlines do not count yet
        self._rooms: dict[Call, asyncio.Future[None]] = {}
        self._unread: set[int] = set()  # answered before the client had sent all
        self._transport: asyncio.Transport
        self._is_reading = False
        self._is_flush_due = False
        self._is_write_paused = False
        self._is_ending = False  # nothing is sent any more, or the transport is gone
        self._is_open = False  # the client's first SETTINGS have come
        self._last_stream = 0
        self._control_frames = 0
        # Times of the owner's clock, as exact as its ticks; 0 for never.
        self._since = owner.now
        self._write_paused_since = 0.0
        self._draining_since = 0.0
        self._is_drained = False  # the last GOAWAY is sent
        self._give_up_at = 0.0

    # Transport callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, or turn the client away."""
        # a cast, because the transports of uvloop do not extend those of asyncio
        self._transport = cast("asyncio.Transport", transport)
        if not self._owner.opened(self) or not sockets.speaks_http2(self._transport):
            self._is_ending = True
            self._transport.abort()
            return
        sockets.keep_alive(self._transport)
        self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - ours has its size
        """Where the next bytes go."""
        return self._owner.scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come; begin the calls that they complete."""
        if self._is_ending:
            return
        try:
            self._h2.receive_data(self._owner.scratch[:nbytes])
        except ngh2.NGH2Error as error:
            self._fail(error)
            return
        self._is_reading = True
        self._dispatch()
        self._is_reading = False
        self._flush()
        if self._fresh:
            for call in self._fresh:
                if not call.is_over:
                    call.watch_deadline()
            self._fresh.clear()

    def eof_received(self) -> bool:
        """The client is done; a call cannot be answered through half a connection."""
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

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_write_paused = False
        self._flush()

    # Calls of the server.

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return bool(self._calls)

    def tick(self, now: float) -> None:
        """Enforce the deadlines; called every so often."""
        limits = self.limits
        self._control_frames = 0
        if self._give_up_at:
            if now > self._give_up_at:
                self._transport.abort()
        elif self._is_write_paused and now - self._write_paused_since > limits.write_seconds:
            log.info("closing a gRPC connection whose client does not read its answers")
            self._transport.abort()
        elif not self._is_open and now - self._since > limits.open_seconds:
            self._terminate(ngh2.ErrorCode.SETTINGS_TIMEOUT)
        else:
            for call in tuple(self._calls.values()):
                call.tick(now)
            if self._draining_since and now - self._draining_since > _DRAIN_SECONDS:
                self._refuse_calls()

    def drain(self) -> None:
        """Take no new calls, and close when the last one is answered.

        The client learns first that it shall send no more, then, after a round trip, which call
        was the last, so that none is lost (RFC 9113, 6.8).
        """
        if self._is_ending or self._draining_since:
            return
        self._draining_since = self._owner.now
        replies.announce_end(self._h2, _DRAIN_PING)
        self._flush()

    def abort(self) -> None:
        """End every call, and go at once."""
        for call in tuple(self._calls.values()):
            call.end(GrpcFault("UNAVAILABLE", "the server is shutting down"))
        self._flush()
        self._abandon()
        self._transport.close()

    # Events.

    def _dispatch(self) -> None:
        for event in self._h2.events():
            if self._is_ending:
                return
            if isinstance(event, ngh2.DataReceived):
                call = self._calls.get(event.stream_id)
                if call is None:
                    self.acknowledge(event.stream_id, len(event.data))
                else:
                    call.receive(event.data, is_last=event.end_stream)
                if not event.data and not event.end_stream:
                    self._count_control_frame()
            elif isinstance(event, ngh2.RequestReceived):
                self._begin(event)
            elif isinstance(event, ngh2.StreamClosed):
                self._closed(event.stream_id)
            else:
                self._note(event)

    def _closed(self, stream_id: int) -> None:
        self._unread.discard(stream_id)
        call = self._calls.pop(stream_id, None)
        if call is not None:
            call.abandon()

    def _note(self, event: ngh2.Event) -> None:
        match event:
            case ngh2.TrailersReceived(stream_id):
                call = self._calls.get(stream_id)
                if call is not None:
                    call.receive(b"", is_last=True)
            case ngh2.SettingsReceived():
                self._is_open = True
                self._count_control_frame()
            case ngh2.PingReceived():
                self._count_control_frame()
            case ngh2.PingAcknowledged(data) if data == _DRAIN_PING:
                self._refuse_calls()
            case ngh2.ConnectionClosed():
                self._linger()
            case _:
                pass

    def _begin(self, event: ngh2.RequestReceived) -> None:
        stream_id = self._last_stream = event.stream_id
        try:
            call = self._make_call(stream_id, dict(event.headers))
        except HttpRefusal as refusal:
            replies.refuse(self._h2, stream_id, refusal)
            self._answered(stream_id, is_read=event.end_stream)
            return
        except GrpcFault as fault:
            replies.finish(self._h2, stream_id, fault, has_head=False)
            self._answered(stream_id, is_read=event.end_stream)
            return
        self._calls[stream_id] = call
        if call.has_deadline:
            self._fresh.append(call)
        if event.end_stream:
            call.receive(b"", is_last=True)

    def _make_call(self, stream_id: int, fields: Mapping[bytes, bytes]) -> Call:
        """The call, or an error if it cannot be served."""
        owner = self._owner
        check_size(fields, self.limits.header_list_bytes)
        head = parse_head(fields)
        path = fields[b":path"]
        if owner.authorize is not None and not owner.authorize(
            path.decode("latin-1"), metadata(fields)
        ):
            raise GrpcFault("UNAUTHENTICATED", status.UNAUTHENTICATED)
        make_call = owner.methods.get(path)
        if make_call is None:
            name = path[:_SHOWN_PATH_BYTES].decode("latin-1")
            raise GrpcFault("UNIMPLEMENTED", f"there is no method {name}")
        return make_call(self, stream_id, head, owner.now)

    def _count_control_frame(self) -> None:
        self._control_frames += 1
        if self._control_frames > self.limits.control_frames:
            self._terminate(ngh2.ErrorCode.ENHANCE_YOUR_CALM)

    # What calls ask for.

    def reply(self, call: Call, frame: Frame) -> None:
        """Send the only message of a call with the status OK, and forget the call."""
        replies.reply(self._h2, call.stream_id, frame, call.answer_coding)
        self._forget(call)

    def send(self, call: Call, frame: Frame) -> None:
        """Send one of several messages."""
        if not call.has_head:
            call.has_head = True
            replies.begin(self._h2, call.stream_id, call.answer_coding)
        replies.send(self._h2, call.stream_id, frame)
        self._flush_soon()

    async def has_room(self, call: Call) -> None:
        """Wait until the client has taken enough of what was sent."""
        if self._is_ending:
            return
        if self._h2.queued_body_size(call.stream_id) > self.limits.outbox_bytes:
            room = self._rooms[call] = asyncio.get_running_loop().create_future()
            try:
                await room
            finally:
                self._rooms.pop(call, None)

    def finish(self, call: Call, fault: GrpcFault | None) -> None:
        """Send a call's status, and forget the call."""
        replies.finish(self._h2, call.stream_id, fault, has_head=call.has_head)
        self._forget(call)

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Let the client send as many bytes again."""
        if not self._is_ending:
            replies.acknowledge(self._h2, stream_id, size)
            self._flush_soon()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it, and keep it from being collected."""
        return self._owner.spawn(work)

    def _forget(self, call: Call) -> None:
        self._calls.pop(call.stream_id, None)
        self._answered(call.stream_id, is_read=call.is_half_closed)
        self._flush_soon()

    def _answered(self, stream_id: int, *, is_read: bool) -> None:
        if not is_read:
            self._unread.add(stream_id)

    # Writing.

    def _flush_soon(self) -> None:
        """Write what other calls send at the same time along with it."""
        if not self._is_flush_due and not self._is_reading:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._is_ending:
            return
        self._write()
        if self._unread:
            self._stop_reading_answered()
        for call, room in tuple(self._rooms.items()):
            if self._h2.queued_body_size(call.stream_id) <= self.limits.outbox_bytes // 2:
                self._rooms.pop(call)
                if not room.done():
                    room.set_result(None)
        if self._is_drained and not self._calls and not self._h2.queued_body_size():
            self._linger()

    def _write(self) -> None:
        while not self._is_write_paused and not self._is_ending:
            data = self._h2.data_to_send(_WRITE_BYTES)
            if not data:
                break
            self._transport.write(data)
            self._dispatch()
            if len(data) < _WRITE_BYTES:
                break

    def _stop_reading_answered(self) -> None:
        """Cut requests short whose answers are written."""
        for stream_id in tuple(self._unread):
            if not self._h2.queued_body_size(stream_id):
                self._unread.discard(stream_id)
                replies.stop_reading(self._h2, stream_id)
        self._write()

    # The end.

    def _refuse_calls(self) -> None:
        """The second half of draining."""
        if not self._is_drained and not self._is_ending:
            self._is_drained = True
            replies.end(self._h2)
            self._flush()

    def _terminate(self, code: ngh2.ErrorCode) -> None:
        """Say why, and end."""
        log.info("closing a gRPC connection: %s", code.name)
        replies.terminate(self._h2, code)
        self._write()
        self._linger()

    def _fail(self, error: ngh2.NGH2Error) -> None:
        """The client broke HTTP/2 in a way that leaves no session; say so by hand."""
        code = replies.error_code(error)
        log.info("closing a gRPC connection: %s: %s", code.name, error)
        self._transport.write(replies.goaway_frame(self._last_stream, code))
        self._linger()

    def _linger(self) -> None:
        """Send what is written and drop further input for a while, then close.

        Closing a socket with unread input resets it, which may destroy what the client has not
        read yet.
        """
        if self._is_ending:
            return
        self._abandon()
        self._give_up_at = self._owner.now + self.limits.linger_seconds
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _abandon(self) -> None:
        """Nobody will read an answer."""
        self._is_ending = True
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.abandon()
