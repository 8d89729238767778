"""One HTTP/2 connection: receives bytes, creates calls, sends bytes.

::

    transport -> ngh2 -> events -> Call
    transport <- ngh2 <- reply, send, finish

libnghttp2, through ngh2, handles HTTP/2: frames, header compression, windows, stream states, and
limits for hostile clients. This module turns its events into calls, and writes what it wants to
send, at the pace of the client.

Source: RFC 9113; "gRPC over HTTP2".
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import ngh2

from moorage_runtime.frontends.grpc import status
from moorage_runtime.frontends.grpc.methods import Authorize, GrpcFault
from moorage_runtime.frontends.grpc.nghttp2 import replies, sockets
from moorage_runtime.frontends.grpc.nghttp2.call import Call, MakeCall
from moorage_runtime.frontends.grpc.nghttp2.framing import Frame
from moorage_runtime.frontends.grpc.nghttp2.head import (
    HttpRefusal,
    check_size,
    metadata,
    parse_head,
)
from moorage_runtime.frontends.grpc.nghttp2.limits import Limits
from moorage_runtime.values.budget import ByteBudget

log = logging.getLogger(__name__)

# Size of one write to the transport, after which a slow client is detected.
_WRITE_BYTES: Final = 1024 * 1024
# Ping during draining: calls that the client sent before it answers the ping are still accepted.
_DRAIN_PING: Final = b"draining"
_DRAIN_SECONDS: Final = 1.0
# Smaller responses are counted together, when they are written.
_COUNTED_BYTES: Final = 64 * 1024
_UNREAD_ANSWERS: Final = "the client does not read its responses fast enough: too many are waiting"
# How much of an unknown method name is quoted.
_SHOWN_PATH_BYTES: Final = 200


class Server(Protocol):
    """What a connection needs from its server."""

    methods: Mapping[bytes, MakeCall]
    authorize: Authorize | None
    limits: Limits
    budget: ByteBudget
    # Buffer shared by all connections, consumed within each read.
    scratch: memoryview
    # Updated at every tick.
    now: float
    # Bytes of responses that clients have not received, over all connections.
    blocked_bytes: int

    def opened(self, connection: "Connection") -> bool:
        """Count the connection; False if there are too many."""
        ...

    def closed(self, connection: "Connection") -> None:
        """Remove the connection."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine, and keep a reference to its task."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol of one client."""

    def __init__(self, server: Server) -> None:
        self.limits = server.limits
        self.budget = server.budget
        self._server = server
        self._h2 = replies.make_session(server.limits)
        self._calls: dict[int, Call] = {}
        self._fresh: list[Call] = []  # started in this read; their deadlines are not watched yet
        self._rooms: dict[Call, asyncio.Future[None]] = {}
        self._unread: set[int] = set()  # answered before the client has sent everything
        self._transport: asyncio.Transport
        self._is_reading = False
        self._is_flush_due = False
        self._is_write_paused = False
        self._is_ending = False  # nothing more is sent, or the transport is closed
        self._is_open = False  # the client's first SETTINGS have arrived
        self._last_stream = 0
        self._control_frames = 0
        # Times of the server's clock, with the precision of its ticks; 0 is never.
        self._since = server.now
        self._write_paused_since = 0.0
        self._draining_since = 0.0
        self._is_drained = False  # the last GOAWAY has been sent
        self._give_up_at = 0.0
        self._idle_since = server.now
        # Bytes of responses that the client has not received, and the time of its last progress.
        self._blocked_bytes = 0
        self._progress_at = server.now

    # Transport callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport, or refuse the client."""
        # a cast, because uvloop's transports do not extend those of asyncio
        self._transport = cast("asyncio.Transport", transport)
        if not self._server.opened(self) or not sockets.speaks_http2(self._transport):
            self._is_ending = True
            self._transport.abort()
            return
        sockets.keep_alive(self._transport)
        self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - our buffer has a fixed size
        """The buffer for the next bytes."""
        return self._server.scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes, and start the calls that they complete."""
        if self._is_ending:
            return
        try:
            self._h2.receive_data(self._server.scratch[:nbytes])
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
        """The client has closed its side; no call can be answered on half a connection."""
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

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_write_paused = False
        self._flush()

    # Called by the server.

    @property
    def is_busy(self) -> bool:
        """Whether a call is running."""
        return bool(self._calls)

    def tick(self, now: float) -> None:
        """Enforce the deadlines; called periodically."""
        limits = self.limits
        self._control_frames = 0
        if self._give_up_at:
            if now > self._give_up_at:
                self._transport.abort()
        elif self._is_write_paused and now - self._write_paused_since > limits.write_seconds:
            log.info("closing a gRPC connection: the client does not read its responses")
            self._transport.abort()
        elif self._blocked_bytes and now - self._progress_at > limits.write_seconds:
            log.info("closing a gRPC connection: the client does not open its window")
            self._transport.abort()
        elif not self._is_open and now - self._since > limits.open_seconds:
            self._terminate(ngh2.ErrorCode.SETTINGS_TIMEOUT)
        else:
            for call in tuple(self._calls.values()):
                call.tick(now)
            if self._calls or self._blocked_bytes:
                self._idle_since = now
            elif now - self._idle_since > limits.idle_seconds:
                self.drain()
            if self._draining_since and now - self._draining_since > _DRAIN_SECONDS:
                self._refuse_calls()

    def is_idle(self, seconds: float) -> bool:
        """Whether the connection has had no call for this time."""
        return not self._calls and self._server.now - self._idle_since > seconds

    def drain(self) -> None:
        """Accept no new calls, and close after the last response.

        The client first learns that it must not start new calls, and after a round trip which call
        was the last, so that none is lost (RFC 9113, 6.8).
        """
        if self._is_ending or self._draining_since:
            return
        self._draining_since = self._server.now
        replies.announce_end(self._h2, _DRAIN_PING)
        self._flush()

    def abort(self) -> None:
        """End every call and close at once."""
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
            call = self._make_call(stream_id, event.headers)
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

    def _make_call(self, stream_id: int, headers: Sequence[tuple[bytes, bytes]]) -> Call:
        """The call, or an error if it cannot be served."""
        server, limits = self._server, self.limits
        fields = dict(headers)
        check_size(fields, len(headers), limits.header_list_bytes, limits.header_count)
        head = parse_head(fields)
        path = fields[b":path"]
        if server.authorize is not None and not server.authorize(
            path.decode("latin-1"), metadata(fields)
        ):
            raise GrpcFault("UNAUTHENTICATED", status.UNAUTHENTICATED)
        make_call = server.methods.get(path)
        if make_call is None:
            name = path[:_SHOWN_PATH_BYTES].decode("latin-1")
            raise GrpcFault("UNIMPLEMENTED", f"unknown method {name}")
        return make_call(self, stream_id, head, server.now)

    def _count_control_frame(self) -> None:
        self._control_frames += 1
        if self._control_frames > self.limits.control_frames:
            self._terminate(ngh2.ErrorCode.ENHANCE_YOUR_CALM)

    # Called by calls.

    def reply(self, call: Call, frame: Frame) -> None:
        """Send the only message of a call with status OK, and remove the call."""
        if self._blocked_bytes and not self._may_queue(frame):
            self.finish(call, GrpcFault("RESOURCE_EXHAUSTED", _UNREAD_ANSWERS))
            return
        replies.reply(self._h2, call.stream_id, frame, call.answer_coding)
        if len(frame[1]) > _COUNTED_BYTES:
            self._count_blocked()
        self._forget(call)

    def _may_queue(self, frame: Frame) -> bool:
        """Whether the response may be queued behind those that the client has not received."""
        self._count_blocked()
        size, limits = sum(map(len, frame)), self.limits
        return not self._blocked_bytes or (
            self._blocked_bytes + size <= limits.blocked_bytes
            and self._server.blocked_bytes + size <= limits.blocked_total_bytes
        )

    def _count_blocked(self) -> None:
        size = self._h2.queued_body_size()
        if size < self._blocked_bytes or not self._blocked_bytes:
            self._progress_at = self._server.now
        self._server.blocked_bytes += size - self._blocked_bytes
        self._blocked_bytes = size

    def send(self, call: Call, frame: Frame) -> None:
        """Send one of several messages."""
        if not call.has_head:
            call.has_head = True
            replies.begin(self._h2, call.stream_id, call.answer_coding)
        replies.send(self._h2, call.stream_id, frame)
        self._flush_soon()

    async def has_room(self, call: Call) -> None:
        """Wait until the client has received enough of the data."""
        if self._is_ending:
            return
        if self._h2.queued_body_size(call.stream_id) > self.limits.outbox_bytes:
            room = self._rooms[call] = asyncio.get_running_loop().create_future()
            try:
                await room
            finally:
                self._rooms.pop(call, None)

    def finish(self, call: Call, fault: GrpcFault | None) -> None:
        """Send a call's status, and remove the call."""
        replies.finish(self._h2, call.stream_id, fault, has_head=call.has_head)
        self._forget(call)

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Let the client send this many more bytes."""
        if not self._is_ending:
            replies.acknowledge(self._h2, stream_id, size)
            self._flush_soon()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine, and keep a reference to its task."""
        return self._server.spawn(work)

    def _forget(self, call: Call) -> None:
        self._calls.pop(call.stream_id, None)
        self._answered(call.stream_id, is_read=call.is_half_closed)
        self._flush_soon()

    def _answered(self, stream_id: int, *, is_read: bool) -> None:
        if not is_read:
            self._unread.add(stream_id)

    # Writing.

    def _flush_soon(self) -> None:
        """Schedule a write, so that responses of several calls share it."""
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
        if self._blocked_bytes or self._h2.queued_body_size():
            self._count_blocked()
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
        """Reset requests whose responses have been written."""
        for stream_id in tuple(self._unread):
            if not self._h2.queued_body_size(stream_id):
                self._unread.discard(stream_id)
                replies.stop_reading(self._h2, stream_id)
        self._write()

    # Closing.

    def _refuse_calls(self) -> None:
        """The second half of draining."""
        if not self._is_drained and not self._is_ending:
            self._is_drained = True
            replies.end(self._h2)
            self._flush()

    def _terminate(self, code: ngh2.ErrorCode) -> None:
        """Send the error and close."""
        log.info("closing a gRPC connection: %s", code.name)
        replies.terminate(self._h2, code)
        self._write()
        self._linger()

    def _fail(self, error: ngh2.NGH2Error) -> None:
        """Send a GOAWAY by hand: the client broke HTTP/2, and the session is unusable."""
        code = replies.error_code(error)
        log.info("closing a gRPC connection: %s: %s", code.name, error)
        self._transport.write(replies.goaway_frame(self._last_stream, code))
        self._linger()

    def _linger(self) -> None:
        """Send pending data, discard input for a while, then close.

        Closing a socket with unread input resets it, which may destroy data that the client has
        not read yet.
        """
        if self._is_ending:
            return
        self._abandon()
        self._give_up_at = self._server.now + self.limits.linger_seconds
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _abandon(self) -> None:
        """The connection is lost; cancel everything."""
        self._is_ending = True
        self._server.blocked_bytes -= self._blocked_bytes
        self._blocked_bytes = 0
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.abandon()
