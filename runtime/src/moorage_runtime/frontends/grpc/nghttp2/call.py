"""One call: receives its request messages, runs its method, and sends its response and status.

::

    connection -> receive -> MessageReader -> method -> wire.reply | wire.send ... wire.finish
                     |                                                              ^
                     +-- reset, deadline, too slow --------------------------- end --+

A method that has its response at hand is answered right where its request is read, without a task
or timer. Otherwise a task awaits it, and is cancelled on a deadline or a reset by the client.
"""

import asyncio
import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Sequence,
)
from typing import Any, Final, Generic, Protocol, TypeVar

from moorage_runtime.frontends.grpc import status
from moorage_runtime.frontends.grpc.methods import GrpcFault, Message, StreamMethod, UnaryMethod
from moorage_runtime.frontends.grpc.nghttp2 import framing
from moorage_runtime.frontends.grpc.nghttp2.framing import Frame, MessageReader, Payload
from moorage_runtime.frontends.grpc.nghttp2.head import IDENTITY, CallHead
from moorage_runtime.frontends.grpc.nghttp2.limits import Limits
from moorage_runtime.frontends.pace import Pace
from moorage_runtime.values.budget import ByteBudget
from moorage_runtime.values.errors import ServerBusy

Method = TypeVar("Method")

# Compressing less than this takes under a millisecond.
_INLINE_BYTES: Final = 64 * 1024


class Wire(Protocol):
    """What a call needs from its connection."""

    limits: Limits
    budget: ByteBudget

    def reply(self, call: "Call", frame: Frame) -> None:
        """Send the only message with status OK, and remove the call."""
        ...

    def send(self, call: "Call", frame: Frame) -> None:
        """Send one of several messages."""
        ...

    async def has_room(self, call: "Call") -> None:
        """Wait until the client has received enough of the data."""
        ...

    def finish(self, call: "Call", fault: GrpcFault | None) -> None:
        """Send the status, and remove the call."""
        ...

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Let the client send this many more bytes."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine, and keep a reference to its task."""
        ...


class Call(ABC):
    """The common part of all calls.

    Args:
        path: The full method name.
        wire: The connection.
        stream_id: The call's HTTP/2 stream.
        head: The parsed headers.
        started: Start time, on the connection's clock.
    """

    def __init__(
        self, path: str, wire: Wire, stream_id: int, head: CallHead, started: float
    ) -> None:
        self.stream_id = stream_id
        self.is_over = False
        self.is_half_closed = False  # the client has sent everything
        self.has_head = False  # the response headers have been sent
        self.answer_coding = IDENTITY
        self._path = path
        self._wire = wire
        self._head = head
        limits = wire.limits
        self._pace = Pace(limits.message_grace_seconds, limits.message_bytes_per_second, started)
        # Bytes of messages that the method has not taken, as the server's budget counts them.
        self._held_bytes = 0
        self._reader = MessageReader(wire.limits.message_bytes)
        self._withheld_bytes = 0  # received, but not yet acknowledged
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Events of the connection.

    def receive(self, data: bytes, *, is_last: bool) -> None:
        """Handle received bytes of the call's body."""
        self.is_half_closed = is_last
        self._withheld_bytes += len(data)
        try:
            payloads = self._reader.feed(data, is_last=is_last)
            if payloads or is_last:
                self._take(payloads, is_last=is_last)
            if self._held_bytes or not self.is_half_closed:
                self._count_held()
        except GrpcFault as fault:
            self.end(fault)
        if is_last or self._withheld_bytes > self._wire.limits.step_bytes:
            self._acknowledge()

    @property
    def has_deadline(self) -> bool:
        """Whether the client has set a deadline."""
        return self._head.timeout_seconds is not None

    def watch_deadline(self) -> None:
        """Start the deadline timer, for a call that is not answered at once."""
        seconds = self._head.timeout_seconds
        if self._timer is None and seconds is not None and not self.is_over:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def abandon(self) -> None:
        """The client has left or cancelled the call."""
        self._settle()
        # what it has sent no longer counts against the connection
        Call._acknowledge(self)

    def end(self, fault: GrpcFault | None) -> None:
        """Send this status, None for OK; later calls have no effect."""
        if not self.is_over:
            self._settle()
            Call._acknowledge(self)
            self._wire.finish(self, fault)

    def tick(self, now: float) -> None:
        """End the call if its request arrives too slowly."""
        received = self._reader.received_bytes
        if not self._awaits_message():
            self._pace.restart(now, received)
        elif self._pace.is_too_slow(now, received):
            self.end(GrpcFault("DEADLINE_EXCEEDED", "the request message did not arrive in time"))

    # Overridden by the kinds of calls.

    def _acknowledge(self) -> None:
        """Reopen the client's window; a message of limited size needs no other limit."""
        size, self._withheld_bytes = self._withheld_bytes, 0
        if size:
            self._wire.acknowledge(self.stream_id, size)

    def _count_held(self) -> None:
        """Count what has come and is not taken.

        Raises:
            GrpcFault: The requests of the server hold too much.
        """
        size = 0 if self.is_over else self._reader.held_bytes + self._untaken_bytes()
        try:
            self._wire.budget.resize(self._held_bytes, size)
        except ServerBusy as error:
            raise status.fault_of(error, self._path) from None
        self._held_bytes = size

    def _untaken_bytes(self) -> int:
        """Bytes of whole messages that the method has not taken."""
        return 0

    @abstractmethod
    def _take(self, payloads: Sequence[Payload], *, is_last: bool) -> None:
        """Handle complete messages.

        Raises:
            GrpcFault: The number of messages is wrong.
        """

    def _awaits_message(self) -> bool:
        """Whether the client still has to send a part of a request."""
        return not self.is_half_closed

    # Shared by the kinds of calls.

    async def _decoded(self, payload: Payload) -> Message:
        """The decompressed message; the response uses the same compression."""
        if not payload.is_compressed:
            return payload.data
        self.answer_coding = self._head.coding
        return await framing.decompress(
            payload, self._head.coding, self._wire.limits.message_bytes
        )

    async def _framed(self, message: bytes) -> Frame:
        """The message with its framing."""
        if self.answer_coding == IDENTITY or len(message) <= _INLINE_BYTES:
            return framing.frame(message, self.answer_coding)
        return await asyncio.to_thread(framing.frame, message, self.answer_coding)

    async def _send_all(self, messages: AsyncIterator[bytes]) -> None:
        """Send each message when the client has room for it, then OK."""
        with self._settling():
            try:
                async for message in messages:
                    self._wire.send(self, await self._framed(message))
                    await self._wire.has_room(self)
                self.end(None)
            finally:
                if isinstance(messages, AsyncGenerator):
                    # if the client has left, the model must stop now, not at garbage collection
                    await messages.aclose()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self.watch_deadline()
        self._task = task = self._wire.spawn(work)
        return task

    @contextlib.contextmanager
    def _settling(self) -> Generator[None]:
        """Turn exceptions of a method into the call's status."""
        try:
            yield
        except asyncio.CancelledError:
            if self.is_over:
                raise
            # the method was cancelled, but this client still waits
            self.end(GrpcFault("CANCELLED", "the server has cancelled the call"))
        except Exception as error:  # noqa: BLE001 - any error becomes a status; see fault_of
            self.end(status.fault_of(error, self._path))

    def _expire(self) -> None:
        seconds = self._head.timeout_seconds or 0.0
        self.end(GrpcFault("DEADLINE_EXCEEDED", f"not answered within {seconds:g} s"))

    def _settle(self) -> None:
        self.is_over = True
        self._wire.budget.give_back(self._held_bytes)
        self._held_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
        # A cancelled task keeps its traceback and thereby this call: with a reference in return,
        # the request would stay in memory until the next garbage collection.
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()


class OneMessageCall(Call, Generic[Method]):
    """A call whose request is exactly one message."""

    _payload: Payload | None = None

    def __init__(
        self,
        method: Method,
        path: str,
        wire: Wire,
        stream_id: int,
        head: CallHead,
        started: float,
    ) -> None:
        super().__init__(path, wire, stream_id, head, started)
        self._method = method

    def _take(self, payloads: Sequence[Payload], *, is_last: bool) -> None:
        if len(payloads) + (self._payload is not None) > 1:
            raise _not_one("several")
        if payloads:
            self._payload = payloads[0]
        if not is_last:
            return
        payload, self._payload = self._payload, None
        if self._held_bytes:
            self._count_held()
        if payload is None:
            raise _not_one("none")
        if payload.is_compressed:
            self._spawn(self._decode_and_run(payload))
        else:
            self._run(payload.data)

    def _untaken_bytes(self) -> int:
        return 0 if self._payload is None else len(self._payload.data)

    async def _decode_and_run(self, payload: Payload) -> None:
        with self._settling():
            message = await self._decoded(payload)
            if not self.is_over:
                self._run(message)

    @abstractmethod
    def _run(self, message: Message) -> None:
        """Start the method."""


class UnaryCall(OneMessageCall[UnaryMethod]):
    """One message in, one out."""

    def _run(self, message: Message) -> None:
        try:
            answer = self._method(message)
        except Exception as error:  # noqa: BLE001 - any error becomes a status; see fault_of
            self.end(status.fault_of(error, self._path))
            return
        if isinstance(answer, bytes) and self.answer_coding == IDENTITY:
            self._reply(framing.frame(answer, IDENTITY))
            return
        task = self._spawn(self._finish(answer))
        if inspect.iscoroutine(answer):
            # a task that is cancelled before it starts would not close it
            task.add_done_callback(lambda _: answer.close())

    async def _finish(self, answer: bytes | Awaitable[bytes]) -> None:
        with self._settling():
            message = answer if isinstance(answer, bytes) else await answer
            frame = await self._framed(message)
            if not self.is_over:
                self._reply(frame)

    def _reply(self, frame: Frame) -> None:
        self._settle()
        self._wire.reply(self, frame)


class StreamCall(OneMessageCall[StreamMethod]):
    """One message in, any number out."""

    def _run(self, message: Message) -> None:
        self._spawn(self._send_all(self._method(message)))


# Creates a call from its connection, stream, headers and time of arrival.
MakeCall = Callable[[Wire, int, CallHead, float], Call]


def _not_one(found: str) -> GrpcFault:
    # the code that gRPC's status document requires for a wrong number of messages
    return GrpcFault("UNIMPLEMENTED", f"the call has {found} messages: must have exactly one")
