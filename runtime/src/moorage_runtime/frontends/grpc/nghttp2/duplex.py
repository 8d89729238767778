"""Calls in which both sides send any number of messages.

    receive -> Inbox -> method -> wire.send

The inbox provides back-pressure: a client can send only a limited amount ahead of the method.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final

from moorage_runtime.frontends.grpc.methods import DuplexMethod, Message
from moorage_runtime.frontends.grpc.nghttp2.call import Call, Wire
from moorage_runtime.frontends.grpc.nghttp2.framing import Payload
from moorage_runtime.frontends.grpc.nghttp2.head import CallHead

# Overhead per message; without it, empty messages would count as nothing.
_MESSAGE_BYTES: Final = 256


class Inbox:
    """Received messages that the method has not taken yet.

    Attributes:
        waiting_bytes: Memory of these messages.
    """

    def __init__(self) -> None:
        self.waiting_bytes = 0
        self._payloads: deque[Payload] = deque()
        self._is_ended = False
        self._changed = asyncio.Event()

    def put(self, payload: Payload) -> None:
        """Add a message."""
        self.waiting_bytes += len(payload.data) + _MESSAGE_BYTES
        self._payloads.append(payload)
        self._changed.set()

    def end(self) -> None:
        """No more messages follow."""
        self._is_ended = True
        self._changed.set()

    async def take(self) -> Payload | None:
        """The next message, or None after the last one."""
        while not self._payloads:
            if self._is_ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        payload = self._payloads.popleft()
        self.waiting_bytes -= len(payload.data) + _MESSAGE_BYTES
        return payload


class DuplexCall(Call):
    """Any number of messages in, any number out; the method starts with the call."""

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

    def _untaken_bytes(self) -> int:
        return self._inbox.waiting_bytes

    def _awaits_message(self) -> bool:
        return not self._reader.is_between

    def _acknowledge(self) -> None:
        if self._inbox.waiting_bytes <= self._wire.limits.inbox_bytes:
            super()._acknowledge()

    async def _messages(self) -> AsyncIterator[Message]:
        while (payload := await self._inbox.take()) is not None:
            self._acknowledge()
            self._count_held()
            yield await self._decoded(payload)
