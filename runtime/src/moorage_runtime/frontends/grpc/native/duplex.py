"""Calls in which both sides send any number of messages.

    receive -> Inbox -> method -> wire.send

The inbox is the back-pressure: a client whose messages are not taken may send only so much more.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from moorage_runtime.frontends.grpc.methods import DuplexMethod, Message
from moorage_runtime.frontends.grpc.native.call import Call, Wire
from moorage_runtime.frontends.grpc.native.framing import Payload
from moorage_runtime.frontends.grpc.native.head import CallHead


class Inbox:
    """Messages that have come and are not taken; an asynchronous iterator over them."""

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self._payloads: deque[Payload] = deque()
        self._is_ended = False
        self._changed = asyncio.Event()

    def put(self, payload: Payload) -> None:
        """Add a message."""
        self.waiting_bytes += len(payload.data)
        self._payloads.append(payload)
        self._changed.set()

    def end(self) -> None:
        """No more messages come."""
        self._is_ended = True
        self._changed.set()

    async def take(self) -> Payload | None:
        """The next message, None when there are no more."""
        while not self._payloads:
            if self._is_ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        payload = self._payloads.popleft()
        self.waiting_bytes -= len(payload.data)
        return payload


class DuplexCall(Call):
    """Any number of messages in, any number out; the method begins with the call."""

    def __init__(
        self,
        method: DuplexMethod,
        path: str,
        wire: Wire,
        stream_id: int,
        head: CallHead,
        started: float,
    ) -> None:
        super().__init__(path, wire, stream_id, head, started)
        self._inbox = Inbox()
        self._spawn(self._send_all(method(self._messages())))

    def _take(self, payloads: Sequence[Payload], *, is_last: bool) -> None:
        for payload in payloads:
            self._inbox.put(payload)
        if is_last:
            self._inbox.end()

    def _awaits_message(self) -> bool:
        return not self._reader.is_between

    def _acknowledge(self) -> None:
        if self._inbox.waiting_bytes <= self._wire.limits.inbox_bytes:
            super()._acknowledge()

    async def _messages(self) -> AsyncIterator[Message]:
        while (payload := await self._inbox.take()) is not None:
            self._acknowledge()
            yield await self._decoded(payload)
