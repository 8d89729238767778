"""The queue of a model: waiting requests, current runs, and the parts of each response.

    Runner.begin -> Batcher.submit -> take -> worker thread: runs -> futures

A request runs at once if a thread is free. Otherwise it waits until a run ends, and the next run
takes all requests that can be merged. No request waits for a timer unless the model's
configuration sets one. The event loop keeps the queue; threads get a list of requests and return a
list of outcomes.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future
from functools import partial

from moorage_runtime.backends.containment import fault_of
from moorage_runtime.execution import runs
from moorage_runtime.execution.batching import merge
from moorage_runtime.execution.batching.policy import BatchingPolicy, RunCost, take
from moorage_runtime.execution.runs import Done, Infer
from moorage_runtime.values.errors import DeadlineExceeded
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Tensor

log = logging.getLogger(__name__)


# Receives the number of merged requests of each run, and the seconds that each of them waited.
RunObserver = Callable[[int, Sequence[float]], None]


class _Entry:
    """A request, the future of its response, and the start of its wait."""

    __slots__ = ("future", "is_taken", "key", "on_leave", "request", "rows", "since")

    def __init__(
        self,
        request: InferRequest,
        key: Hashable,
        future: "asyncio.Future[tuple[Tensor, ...]]",
        on_leave: Callable[[], None],
    ) -> None:
        self.request = request
        self.on_leave = on_leave
        self.key = key
        self.rows = merge.rows(request) if key is not None else 0
        self.future = future
        self.is_taken = False
        self.since = time.perf_counter()


class Batcher:
    """Runs the requests for one version of a model in worker threads.

    Args:
        infer: Runs one request; blocks.
        name: Name of the model, for the log.
        executor: Runs one call for each run.
        slots: Maximum number of concurrent runs. It is one while merging pays off, because all
            requests that wait for this run are merged into the next.
        policy: How requests are merged; None disables merging.
        observe: Receives the figures of each run, or None.
    """

    def __init__(
        self,
        infer: Infer,
        name: str,
        *,
        executor: Executor,
        slots: int,
        policy: BatchingPolicy | None,
        observe: RunObserver | None,
    ) -> None:
        self._infer = infer
        self._name = name
        self._executor = executor
        self._slots = slots
        self._running = 0
        self._policy = policy
        self._cost = RunCost()
        self._may_merge = policy is not None
        self._observe = observe
        self._waiting: deque[_Entry] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def submit(
        self, request: InferRequest, on_leave: Callable[[], None], timeout_seconds: float = 0.0
    ) -> "asyncio.Future[tuple[Tensor, ...]]":
        """Run a request as soon as possible; the future gets its outputs or its RuntimeFault.

        Cancellation or a timeout of a future does not affect the other requests of its run: a
        waiting request is dropped, and the result of a running one is discarded.

        Args:
            request: The request.
            on_leave: Called when the request no longer runs or waits. The batcher then drops its
                reference: a callback of its owner would otherwise form a cycle, which keeps the
                model in memory until the garbage collector finds it.
            timeout_seconds: When the future gets DeadlineExceeded; 0 is never.
        """
        loop = asyncio.get_running_loop()
        entry = _Entry(request, self._key(request), loop.create_future(), on_leave)
        entry.future.add_done_callback(partial(self._settled, entry))
        if timeout_seconds:
            timer = loop.call_later(timeout_seconds, _expire, entry.future, timeout_seconds)
            entry.future.add_done_callback(lambda _: timer.cancel())
        self._waiting.append(entry)
        self._start()
        return entry.future

    def _key(self, request: InferRequest) -> Hashable:
        """The merge key, or None for requests that run alone."""
        return merge.key(request) if self._may_merge else None

    def _settled(self, entry: _Entry, future: "asyncio.Future[tuple[Tensor, ...]]") -> None:
        """Drop a waiting request that was cancelled or timed out."""
        if not entry.is_taken:
            if not future.cancelled():
                future.exception()  # avoids a log message if the client has left
            self._waiting.remove(entry)
            entry.on_leave()

    def _start(self) -> None:
        """Start runs from the queue while threads are free."""
        while self._waiting and self._running < self._limit():
            delay = self._delay()
            if delay > 0:
                self._wake_after(delay)
                return
            self._run(self._take())

    def _limit(self) -> int:
        """Maximum number of concurrent runs, which depends on the head of the queue."""
        return 1 if self._waiting[0].key is not None and self._cost.pays() else self._slots

    def _delay(self) -> float:
        """How long the head of the queue may still wait for others."""
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
        if self._policy is None or head.key is None or not self._cost.pays():
            return [self._waiting.popleft()]
        places = take(self._waiting, self._policy.max_rows)
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
        run = runs.merged if len(entries) > 1 else runs.alone
        loop = asyncio.get_running_loop()
        running = self._executor.submit(run, self._infer, requests)
        # the thread's result returns as one call, whatever the number of requests
        running.add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._end, entries, _done(done, len(entries)))
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
            entry.on_leave()
        if done.unfit and self._may_merge:
            self._may_merge = False
            for entry in self._waiting:
                entry.key = None
            log.warning(
                "batching of model '%s' is disabled until it is reloaded: a merged run failed, "
                "but its requests succeeded individually: %s; set batching: {enabled: false} in "
                "model.yaml",
                self._name,
                done.unfit,
            )
        self._start()


def _done(run: "Future[Done]", requests: int) -> Done:
    """Handle the result of a run; the slot is released even if the run raises."""
    error = run.exception()
    return run.result() if error is None else Done([fault_of(error)] * requests)


def _expire(future: "asyncio.Future[tuple[Tensor, ...]]", seconds: float) -> None:
    if not future.done():
        future.set_exception(DeadlineExceeded(f"the model did not answer within {seconds:g} s"))
