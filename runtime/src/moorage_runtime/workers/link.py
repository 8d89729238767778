"""A worker's connection to its supervisor.

    supervisor -> Begin, View, Do -> Link -> State, Ask, Answer -> supervisor

The link transfers messages and keeps the last View. The server carries out the commands.
"""

import asyncio
import itertools
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from moorage_runtime.dataplane.others import Change
from moorage_runtime.values import errors
from moorage_runtime.values.errors import RuntimeFault
from moorage_runtime.values.inference import ModelStatus
from moorage_runtime.workers.shared import messages
from moorage_runtime.workers.shared.messages import (
    Act,
    Answer,
    Answers,
    Ask,
    Beat,
    Begin,
    Do,
    Family,
    FromWorker,
    State,
    ToWorker,
    VersionState,
    View,
)

log = logging.getLogger(__name__)

# Carries out a Do and returns the metrics for "collect", otherwise nothing; raises RuntimeFault.
Perform = Callable[[Act, str], Awaitable[tuple[Family, ...]]]

_LOADING: Final = "LOADING"
_BEAT_SECONDS: Final = 1.0


class Link:
    """The connection after the supervisor's first message; implements ``Others`` of the dataplane.

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
        """Handle messages until the supervisor ends; then this process ends as well.

        Args:
            perform: Carries out the supervisor's commands.
            on_view: Called when the states of the other workers have changed.
        """
        beating = asyncio.create_task(self._beat())
        self._doing.add(beating)
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
        """Send this worker's state to the supervisor if it has changed."""
        if state != self._told:
            self._told = state
            self._send(state)

    async def ask(self, act: Act, name: str = "") -> tuple[Answer, ...]:
        """Let all workers, including this one, carry out a command; returns when all are done.

        Raises:
            RuntimeFault: The first error of any worker.
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

    async def _beat(self) -> None:
        """Show the supervisor that the event loop runs."""
        while not self._writer.is_closing():
            self._send(Beat())
            await asyncio.sleep(_BEAT_SECONDS)

    async def _do(self, do: Do, perform: Perform) -> None:
        try:
            answer = Answer(do.number, families=await perform(do.act, do.name))
        except RuntimeFault as fault:
            answer = _refusal(do, fault.reason, fault.message)
        except Exception as error:
            # without a reply, the requester would wait forever
            log.exception("a worker failed to %s '%s'", do.act, do.name)
            answer = _refusal(do, RuntimeFault.reason, f"{type(error).__name__}: {error}")
        self._send(answer)

    def _send(self, message: FromWorker) -> None:
        self._writer.write(messages.encode(message))


def _refusal(do: Do, reason: str, message: str) -> Answer:
    # a library's message may contain anything, and the connection carries UTF-8
    return Answer(do.number, reason, message.encode(errors="replace").decode())


async def connect(descriptor: int) -> Link:
    """The link over an inherited socket.

    Raises:
        ConnectionError: The supervisor has ended.
    """
    wire = socket.socket(fileno=descriptor)
    reader, writer = await asyncio.open_unix_connection(sock=wire)
    first = await _receive(reader)
    if not isinstance(first, Begin):
        raise ConnectionError("the supervisor has ended")
    return Link(reader, writer, first)


async def _receive(reader: asyncio.StreamReader) -> ToWorker | None:
    """The next message, or None at the end."""
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
