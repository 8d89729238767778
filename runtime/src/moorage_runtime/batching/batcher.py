"""The queue before a model: who waits, what runs, and who gets which part of the answer.

    Runner.begin -> Batcher.submit -> take -> worker thread: runs -> each one's future

A request finds a free thread and runs at once, or waits until a run ends; then everything that
fits together goes into the next run. Nothing waits for a timer unless the model's configuration
asks for one. The queue is kept by the event loop; threads get a list of requests and give back a
list of outcomes.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from functools import partial

from moorage_runtime.batching import merge, runs
from moorage_runtime.batching.policy import TRIAL_ROWS, BatchingPolicy, RunCost, Trials, take
from moorage_runtime.batching.runs import Done, Infer
from moorage_runtime.inference import InferRequest
from moorage_runtime.tensors import Tensor

log = logging.getLogger(__name__)


# Gets the figures of each run: how many requests ran together, seconds that each of them waited.
RunObserver = Callable[[int, Sequence[float]], None]


class _Entry:
    """A request, the future of its answer, and since when it waits."""

    __slots__ = ("future", "is_taken", "key", "request", "rows", "since")

    def __init__(
        self, request: InferRequest, key: Hashable, future: "asyncio.Future[tuple[Tensor, ...]]"
    ) -> None:
        self.request = request
        self.key = key
        self.rows = merge.rows(request) if key is not None else 0
        self.future = future
        self.is_taken = False
        self.since = time.perf_counter()


class Batcher:
    """Runs the requests for one version of a model in worker threads.

    Args:
        infer: Runs one request; blocks.
        name: Of the model, for the log.
        executor: Gets one call for each run.
        slots: Runs at the same time; one where merging pays, since whoever waits for it goes
            along with the next.
        policy: How requests are merged; None merges none.
        observe: Gets the figures of each run, None for nobody.
        on_leave: Told of each request that neither runs nor waits any more.
    """

    def __init__(  # noqa: PLR0913 - the parts of a queue; all but two by keyword
        self,
        infer: Infer,
        name: str,
        *,
        executor: Executor,
        slots: int,
        policy: BatchingPolicy | None,
        observe: RunObserver | None,
        on_leave: Callable[[], None],
    ) -> None:
        self._infer = infer
        self._name = name
        self._executor = executor
        self._slots = slots
        self._running = 0
        self._policy = policy
        self._cost = RunCost()
        self._trials = None if policy is None else Trials(is_tried=policy.is_tried)
        self._observe = observe
        self._on_leave = on_leave
        self._waiting: deque[_Entry] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, request: InferRequest) -> "asyncio.Future[tuple[Tensor, ...]]":
        """Run a request as soon as possible; the future has its outputs or its RuntimeFault.

        A cancelled future lets the others of its run be: while it waits it is dropped, later
        its part of the answer is.
        """
        loop = asyncio.get_running_loop()
        entry = _Entry(request, self._key(request), loop.create_future())
        entry.future.add_done_callback(partial(self._settled, entry))
        self._waiting.append(entry)
        self._start()
        return entry.future

    def _key(self, request: InferRequest) -> Hashable:
        """None for requests that run alone."""
        if self._trials is None or not self._trials.may_merge(_outputs(request)):
            return None
        return merge.key(request)

    def _settled(self, entry: _Entry, future: "asyncio.Future[tuple[Tensor, ...]]") -> None:
        """Let go of a request that was cancelled while it waited."""
        if future.cancelled() and not entry.is_taken:
            self._waiting.remove(entry)
            self._on_leave()

    def _start(self) -> None:
        """Fill the free threads from the queue."""
        while self._waiting and self._running < self._limit():
            delay = self._delay()
            if delay > 0:
                self._wake_after(delay)
                return
            self._run(self._take())

    def _limit(self) -> int:
        """Runs at the same time, by the head of the queue."""
        return 1 if self._waiting[0].key is not None and self._cost.pays() else self._slots

    def _delay(self) -> float:
        """How long the head of the queue may still wait for company."""
        head = self._waiting[0]
        if self._policy is None or not self._policy.max_delay_seconds or head.key is None:
            return 0.0
        company = sum(entry.rows for entry in self._waiting if entry.key == head.key)
        if company >= self._policy.max_rows:
            return 0.0
        return head.since + self._policy.max_delay_seconds - time.perf_counter()

    def _wake_after(self, delay: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._start()

    def _take(self) -> list[_Entry]:
        head = self._waiting[0]
        if (
            self._policy is None
            or self._trials is None
            or head.key is None
            or not self._cost.pays()
        ):
            return [self._waiting.popleft()]
        most = self._policy.max_rows
        if self._trials.is_due(_outputs(head.request)):
            most = min(most, TRIAL_ROWS)
        places = take(self._waiting, most)
        taken = [self._waiting[place] for place in places]
        for place in reversed(places):
            del self._waiting[place]
        return taken

    def _run(self, entries: list[_Entry]) -> None:
        self._running += 1
        for entry in entries:
            entry.is_taken = True
        if self._observe is not None:
            now = time.perf_counter()
            self._observe(len(entries), [now - entry.since for entry in entries])
        requests = [entry.request for entry in entries]
        run = runs.alone
        if len(entries) > 1 and self._trials is not None:
            run = runs.trial if self._trials.is_due(_outputs(requests[0])) else runs.merged
        loop = asyncio.get_running_loop()
        running = self._executor.submit(run, self._infer, requests)
        # the thread's answer comes back as one call, whatever the number of requests
        running.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._end, entries, done.result())
        )

    def _end(self, entries: list[_Entry], done: Done) -> None:
        self._running -= 1
        if done.seconds and entries[0].key is not None:
            self._cost.record(sum(entry.rows for entry in entries), done.seconds)
        for entry, outcome in zip(entries, done.outcomes, strict=True):
            if not entry.future.done():
                if isinstance(outcome, Exception):
                    entry.future.set_exception(outcome)
                else:
                    entry.future.set_result(outcome)
            self._on_leave()
        if done.verdict is not None:
            self._judge(entries[0].request, done)
        self._start()

    def _judge(self, request: InferRequest, done: Done) -> None:
        trials = self._trials
        if trials is None or trials.is_refuted:
            return
        if done.verdict:
            trials.agreed(_outputs(request))
            return
        trials.refute()
        for entry in self._waiting:
            entry.key = None
        log.warning(
            "model '%s' is no longer batched: %s; its rows seem to influence one another, or its "
            "batch is not variable",
            self._name,
            done.why,
        )


def _outputs(request: InferRequest) -> frozenset[str]:
    return frozenset(output.name for output in request.outputs)
