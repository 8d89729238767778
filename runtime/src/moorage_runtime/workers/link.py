"""A worker's end of the wire to its supervisor.

    supervisor -> Begin, View, Do -> Link -> State, Ask, Answer -> supervisor

The link carries messages and keeps the last View; what is to be done is the server's, which it
calls.
"""

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from moorage_runtime import errors
from moorage_runtime.errors import RuntimeFault
from moorage_runtime.inference import ModelStatus
from moorage_runtime.others import Change
from moorage_runtime.workers import messages
from moorage_runtime.workers.messages import (
    Act,
    Answer,
    Answers,
    Ask,
    Begin,
    Do,
    Family,
    FromWorker,
    State,
    ToWorker,
    VersionState,
    View,
)

# Carries out one Do: the metrics for "collect", else nothing; raises RuntimeFault.
Perform = Callable[[Act, str], Awaitable[tuple[Family, ...]]]

_LOADING: Final = "LOADING"


class Link:
    """The wire, once the supervisor has sent the first message; the ``Others`` of the dataplane.

    Attributes:
        begin: The first message.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begin: Begin
    ) -> None:
        self.begin = begin
        self._reader = reader
        self._writer = writer
        self._view = View(())
        self._told: State | None = None
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[tuple[Answer, ...]]] = {}
        self._doing: set[asyncio.Task[None]] = set()

    async def run(self, perform: Perform, on_view: Callable[[], None]) -> None:
        """Take messages until the supervisor is gone; then this process ends as well.

        Args:
            perform: Carries out what the supervisor wants.
            on_view: Called when the other workers' states have changed.
        """
        while (message := await _receive(self._reader)) is not None:
            match message:
                case View():
                    self._view = message
                    on_view()
                case Do():
                    task = asyncio.create_task(self._do(message, perform))
                    self._doing.add(task)
                    task.add_done_callback(self._doing.discard)
                case Answers():
                    asked = self._asked.pop(message.number, None)
                    if asked is not None and not asked.done():
                        asked.set_result(message.answers)
                case Begin():
                    pass
        os.kill(os.getpid(), signal.SIGTERM)

    def tell(self, state: State) -> None:
        """Tell the supervisor this worker's state when it has changed."""
        if state != self._told:
            self._told = state
            self._send(state)

    async def ask(self, act: Act, name: str = "") -> tuple[Answer, ...]:
        """Let all workers, this one included, do something; returns when all have.

        Raises:
            RuntimeFault: The first error of any of them.
        """
        number = next(self._numbers)
        future = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        self._send(Ask(number, act, name))
        answers: tuple[Answer, ...] = await future
        for answer in answers:
            if answer.reason:
                raise _FAULTS.get(answer.reason, RuntimeFault)(answer.message)
        return answers

    async def change(self, change: Change, name: str) -> None:
        """As ``Others.change``."""
        await self.ask(change, name)

    def are_ready(self) -> bool:
        """As ``Others.are_ready``."""
        return all(state.is_ready for state in self._view.peers)

    def worst(self, status: ModelStatus) -> ModelStatus:
        """As ``Others.worst``."""
        for peer in self._view.peers if status.state == "READY" else ():
            found = _find(peer, status)
            if found is None:
                return ModelStatus(status.name, status.version, _LOADING)
            if found.state != "READY":
                return ModelStatus(found.name, found.version, found.state, found.message)
        return status

    async def _do(self, do: Do, perform: Perform) -> None:
        try:
            answer = Answer(do.number, families=await perform(do.act, do.name))
        except RuntimeFault as fault:
            answer = Answer(do.number, fault.reason, fault.message)
        self._send(answer)

    def _send(self, message: FromWorker) -> None:
        self._writer.write(messages.encode(message))


async def connect(descriptor: int) -> Link:
    """The link over an inherited socket.

    Raises:
        ConnectionError: The supervisor is gone.
    """
    wire = socket.socket(fileno=descriptor)
    reader, writer = await asyncio.open_unix_connection(sock=wire)
    first = await _receive(reader)
    if not isinstance(first, Begin):
        raise ConnectionError("the supervisor is gone")
    return Link(reader, writer, first)


async def _receive(reader: asyncio.StreamReader) -> ToWorker | None:
    """The next message, None at the end."""
    try:
        head = await reader.readexactly(messages.LENGTH_BYTES)
        body = await reader.readexactly(messages.decode_length(head))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return messages.decode_to_worker(body)


def _find(peer: State, status: ModelStatus) -> VersionState | None:
    return next(
        (m for m in peer.models if (m.name, m.version) == (status.name, status.version)), None
    )


def _faults() -> dict[str, type[RuntimeFault]]:
    kinds = [k for k in vars(errors).values() if isinstance(k, type)]
    return {kind.reason: kind for kind in kinds if issubclass(kind, RuntimeFault)}


_FAULTS: Final = _faults()
