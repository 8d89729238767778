"""One call: its request messages in, its method run, its answer and status out.

::

    connection -> receive -> MessageReader -> method -> wire.reply | wire.send ... wire.finish
                     |                                                              ^
                     +-- reset, deadline, too slow --------------------------- end --+

A method that has its answer at hand is answered where its request is read, without a task or a
timer. Else a task awaits it; when the deadline passes or the client cancels, it is cancelled.
"""

import asyncio
import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Coroutine,
    Generator,
    Sequence,
)
from typing import Any, Final, Generic, Protocol, TypeVar

from moorage_runtime.frontends.grpc import status
from moorage_runtime.frontends.grpc.methods import GrpcFault, Message, StreamMethod, UnaryMethod
from moorage_runtime.frontends.grpc.native import framing
from moorage_runtime.frontends.grpc.native.framing import Frame, MessageReader, Payload
from moorage_runtime.frontends.grpc.native.head import IDENTITY, CallHead
from moorage_runtime.frontends.grpc.native.limits import Limits

Method = TypeVar("Method")

# Compression of less than this takes less than a millisecond.
_INLINE_BYTES: Final = 64 * 1024


class Wire(Protocol):
    """What a call needs of its connection."""

    limits: Limits

    def reply(self, call: "Call", frame: Frame) -> None:
        """Send the only message, with the status OK, and forget the call."""
        ...

    def send(self, call: "Call", frame: Frame) -> None:
        """Send one of several messages."""
        ...

    async def has_room(self, call: "Call") -> None:
        """Wait until the client has taken enough of what was sent."""
        ...

    def finish(self, call: "Call", fault: GrpcFault | None) -> None:
        """Send the status, and forget the call."""
        ...

    def acknowledge(self, stream_id: int, size: int) -> None:
        """Let the client send as many bytes again."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it, and keep it from being collected."""
        ...


class Call(ABC):
    """What all calls have in common.

    Args:
        path: The full method name.
        wire: The connection.
        stream_id: The call's HTTP/2 stream.
        head: What its headers say.
        started: Time of the connection's clock.
    """

    def __init__(
        self, path: str, wire: Wire, stream_id: int, head: CallHead, started: float
    ) -> None:
        self.stream_id = stream_id
        self.is_over = False
        self.is_half_closed = False  # the client has sent all
        self.has_head = False  # the answer's headers are sent
        self.answer_coding = IDENTITY
        self._path = path
        self._wire = wire
        self._head = head
        self._started = started
        self._reader = MessageReader(wire.limits.message_bytes)
        self._withheld_bytes = 0  # received, and not yet acknowledged
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # What the connection tells.

    def receive(self, data: bytes, *, is_last: bool) -> None:
        """Bytes of the call's body have come."""
        self.is_half_closed = is_last
        self._withheld_bytes += len(data)
        try:
            payloads = self._reader.feed(data, is_last=is_last)
            if payloads or is_last:
                self._take(payloads, is_last=is_last)
        except GrpcFault as fault:
            self.end(fault)
        if is_last or self._withheld_bytes > self._wire.limits.step_bytes:
            self._acknowledge()

    @property
    def has_deadline(self) -> bool:
        """Whether the client wants its answer within some time."""
        return self._head.timeout_seconds is not None

    def watch_deadline(self) -> None:
        """Begin to count, for a call that is not answered where it was read."""
        seconds = self._head.timeout_seconds
        if self._timer is None and seconds is not None and not self.is_over:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def abandon(self) -> None:
        """The client is gone, or wants no answer any more."""
        self._settle()
        # what it had sent counts against the connection no longer
        Call._acknowledge(self)

    def end(self, fault: GrpcFault | None) -> None:
        """Answer with this status, None for OK; nothing after the first time."""
        if not self.is_over:
            self._settle()
            Call._acknowledge(self)
            self._wire.finish(self, fault)

    def tick(self, now: float) -> None:
        """Give up a request that comes too slowly."""
        limits = self._wire.limits
        allowance = self._reader.received_bytes / limits.message_bytes_per_second
        if self._awaits_message() and (
            now - self._started > limits.message_grace_seconds + allowance
        ):
            self.end(GrpcFault("DEADLINE_EXCEEDED", "the request's message did not come in time"))

    # What the kinds of calls do with it.

    def _acknowledge(self) -> None:
        """Open the client's window again; a message of a bounded size needs no other bound."""
        size, self._withheld_bytes = self._withheld_bytes, 0
        if size:
            self._wire.acknowledge(self.stream_id, size)

    @abstractmethod
    def _take(self, payloads: Sequence[Payload], *, is_last: bool) -> None:
        """Messages are complete.

        Raises:
            GrpcFault: There must not be so many or so few.
        """

    def _awaits_message(self) -> bool:
        """Whether the client owes the rest of a request."""
        return not self.is_half_closed

    # What they share.

    async def _decoded(self, payload: Payload) -> Message:
        """The message; its compression is the answer's as well, as the client seems to want it."""
        if not payload.is_compressed:
            return payload.data
        self.answer_coding = self._head.coding
        return await asyncio.to_thread(
            framing.decompress, payload, self._head.coding, self._wire.limits.message_bytes
        )

    async def _framed(self, message: bytes) -> Frame:
        """The message as it is sent."""
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
                    # the client may be gone; the model shall stop now, not when memory is freed
                    await messages.aclose()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self.watch_deadline()
        self._task = task = self._wire.spawn(work)
        return task

    @contextlib.contextmanager
    def _settling(self) -> Generator[None]:
        """Turn what a method raises into the call's status."""
        try:
            yield
        except asyncio.CancelledError:
            if self.is_over:
                raise
            # the method gave up what it awaited; this client still waits
            self.end(GrpcFault("CANCELLED", "the server has given the call up"))
        except Exception as error:  # noqa: BLE001 - the request loop's edge; see fault_of
            self.end(status.fault_of(error, self._path))

    def _expire(self) -> None:
        seconds = self._head.timeout_seconds or 0.0
        self.end(GrpcFault("DEADLINE_EXCEEDED", f"not answered within {seconds:g} s"))

    def _settle(self) -> None:
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()


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
        if payload is None:
            raise _not_one("none")
        if payload.is_compressed:
            self._spawn(self._decode_and_run(payload))
        else:
            self._run(payload.data)

    async def _decode_and_run(self, payload: Payload) -> None:
        with self._settling():
            message = await self._decoded(payload)
            if not self.is_over:
                self._run(message)

    @abstractmethod
    def _run(self, message: Message) -> None:
        """Begin the method."""


class UnaryCall(OneMessageCall[UnaryMethod]):
    """One message in, one out."""

    def _run(self, message: Message) -> None:
        try:
            answer = self._method(message)
        except Exception as error:  # noqa: BLE001 - the request loop's edge; see fault_of
            self.end(status.fault_of(error, self._path))
            return
        if isinstance(answer, bytes) and self.answer_coding == IDENTITY:
            self._reply(framing.frame(answer, IDENTITY))
            return
        task = self._spawn(self._finish(answer))
        if inspect.iscoroutine(answer):
            # a task that is cancelled before it begins would leave it behind
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


def _not_one(found: str) -> GrpcFault:
    # the code that gRPC's status document wants for a wrong number of messages
    return GrpcFault("UNIMPLEMENTED", f"the call has {found} messages, expected exactly one")
