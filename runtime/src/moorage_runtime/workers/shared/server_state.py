"""The state of the whole server, and the messages of the supervisor. Pure.

    a worker's message, start or end -> ServerState -> messages to workers

Each worker counts towards the readiness of the server, except while it is being replaced: the
kernel sends its connections to other workers, and the new one listens only when it is ready.
"""

import itertools
from collections.abc import Sequence
from typing import Final

from moorage_runtime.workers.shared import totals
from moorage_runtime.workers.shared.messages import (
    Answer,
    Answers,
    Ask,
    Begin,
    Do,
    Family,
    State,
    ToWorker,
    View,
)

Letters = Sequence[tuple[int, ToWorker]]

_STARTING: Final = State()


class _Question:
    """A pending Ask: its sender, and the workers whose answers are missing."""

    def __init__(self, asker: int, ask: Ask, missing: set[int]) -> None:
        self.asker = asker
        self.ask = ask
        self.missing = missing
        self.answers: list[Answer] = []


class ServerState:
    """The state of all workers.

    Args:
        workers: Number of workers; they are numbered from 0.
        http_port: Port that all of them listen on.
        grpc_port: Port that all of them listen on.
    """

    def __init__(self, workers: int, http_port: int, grpc_port: int) -> None:
        self._ports = (http_port, grpc_port)
        self._states: dict[int, State] = dict.fromkeys(range(workers), _STARTING)
        self._running: set[int] = set()
        self._served: set[int] = set()
        self._is_online: bool | None = None
        self._unloaded: set[str] = set()
        self._questions: dict[int, _Question] = {}
        self._numbers = itertools.count()
        self._ended: tuple[Family, ...] = ()
        self._seen: dict[int, tuple[Family, ...]] = {}

    def started(self, worker: int) -> Letters:
        """A worker's process has started and can receive messages."""
        self._running.add(worker)
        begin = Begin(
            *self._ports, worker in self._served, self._is_online, tuple(sorted(self._unloaded))
        )
        return [(worker, begin), (worker, self._view(worker))]

    def ended(self, worker: int) -> Letters:
        """A worker's process has ended."""
        self._running.discard(worker)
        if worker in self._served:
            self._states.pop(worker, None)
        else:
            self._states[worker] = _STARTING
        # scrapers have seen these values, so the sums must not decrease
        self._ended = totals.total([self._ended, totals.counters(self._seen.pop(worker, ()))])
        letters = list(self._views())
        for number, question in list(self._questions.items()):
            if question.asker == worker:
                del self._questions[number]
            else:
                letters += self._without(number, worker)
        return letters

    def heard_state(self, worker: int, state: State) -> Letters:
        """A worker has sent its state."""
        if state.is_listening:
            self._served.add(worker)
        if worker in self._served and not state.is_listening:
            return []
        self._states[worker] = state
        return self._views()

    def heard_ask(self, worker: int, ask: Ask) -> tuple[int, Letters]:
        """A worker has sent an Ask; returns its number and the messages to send."""
        match ask.act:
            case "load":
                self._unloaded.discard(ask.name)
            case "unload":
                self._unloaded.add(ask.name)
            case "online" | "offline":
                self._is_online = ask.act == "online"
            case "collect":
                pass
        number = next(self._numbers)
        self._questions[number] = _Question(worker, ask, set(self._running))
        return number, [(w, Do(number, ask.act, ask.name)) for w in sorted(self._running)]

    def heard_answer(self, worker: int, answer: Answer) -> Letters:
        """A worker has sent an Answer."""
        question = self._questions.get(answer.number)
        if question is None or worker not in question.missing:
            return []
        if question.ask.act == "collect":
            self._seen[worker] = answer.families
        question.answers.append(answer)
        return self._without(answer.number, worker)

    def expired(self, number: int) -> Letters:
        """An Ask has timed out: the last known metrics replace the missing ones."""
        question = self._questions.get(number)
        letters: list[tuple[int, ToWorker]] = []
        for worker in sorted(question.missing if question else ()):
            seen = Answer(number, families=self._seen.get(worker, ()))
            letters += self.heard_answer(worker, seen)
        return letters

    def _without(self, number: int, worker: int) -> Letters:
        """Stop waiting for this worker; if it was the last, send the result."""
        question = self._questions[number]
        question.missing.discard(worker)
        if question.missing:
            return []
        del self._questions[number]
        answers = tuple(question.answers)
        if question.ask.act == "collect":
            everyone = [self._ended, *(answer.families for answer in answers)]
            answers = (Answer(number, families=totals.total(everyone)),)
        return [(question.asker, Answers(question.ask.number, answers))]

    def _views(self) -> Letters:
        return [(worker, self._view(worker)) for worker in sorted(self._running)]

    def _view(self, worker: int) -> View:
        return View(tuple(state for w, state in sorted(self._states.items()) if w != worker))
