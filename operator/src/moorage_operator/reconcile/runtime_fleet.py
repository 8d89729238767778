"""Keeps the statuses of InferenceRuntimes current, and grants turns to follow edited ones.

any reconcile, any change of a runtime --> RuntimeFleet --> statuses, turns --> reconciles
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime

from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.decide.runtimes.fleet import concerned, runtime_status, user_of
from moorage_operator.kube import errors
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.store.store import Store
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.urgency import Urgency
from moorage_operator.write.runtime_statuses import RuntimeStatusWriter

from .runtime_turns import RuntimeTurns

__all__ = ["RuntimeFleet"]

logger = logging.getLogger(__name__)

APART_SECONDS = 0.5
"""The minimum time between two looks at all models."""

RETRY_SECONDS = 5.0


class RuntimeFleet:
    """The models of all runtimes.

    Args:
        store: The models.
        runtimes: The runtimes.
        turns: The models that wait to follow a runtime.
        statuses: Writes the statuses of runtimes; None if the operator serves only a part of the
            models. It cannot count the others, and several such operators would overwrite each
            other's counts.
        have_arrived: Whether the store has all models that existed when it is first called.
        now: Returns the time in UTC.
        again: Called with a model that needs a reconcile, and its urgency.
    """

    def __init__(  # noqa: PLR0913 -- what it reads and writes, and three injected functions
        self,
        store: Store,
        runtimes: RuntimeStore,
        turns: RuntimeTurns,
        statuses: RuntimeStatusWriter | None,
        *,
        have_arrived: Callable[[], Awaitable[bool]],
        now: Callable[[], datetime],
        again: Callable[[ObjectKey, Urgency], None],
    ) -> None:
        self._store = store
        self._runtimes = runtimes
        self._turns = turns
        self._statuses = statuses
        self._have_arrived = have_arrived
        self._now = now
        self._again = again
        self._news = asyncio.Event()

    def look(self) -> None:
        """Look at all models soon, because one of them or a runtime changed."""
        self._news.set()

    def runtime_changed(
        self, before: InferenceRuntime | None, after: InferenceRuntime | None
    ) -> None:
        """Reconcile the models that use a changed runtime or could use it."""
        self._reconcile(self._store.models(), [each for each in (before, after) if each])

    def labels_changed(self, namespace: str) -> None:
        """Reconcile the models of a namespace that a runtime selects by labels."""
        runtimes = self._runtimes.current.by_name.values()
        selecting = [each for each in runtimes if each.allowed_namespaces]
        if selecting:
            models = (each for each in self._store.models() if each.key.namespace == namespace)
            self._reconcile(models, selecting)

    def access_changed(self) -> None:
        """Reconcile the models that can use a runtime, because all can be read or none."""
        for record in self._store.models():
            if record.spec:
                self._again(record.key, Urgency.ROUTINE)
        self.look()

    def _reconcile(
        self, models: Iterable[ModelRecord], changed: Collection[InferenceRuntime]
    ) -> None:
        for key in sorted(concerned(models, changed)):
            self._again(key, Urgency.ROUTINE)
        self.look()

    async def run(self) -> None:
        """Look at all models after changes until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.look_now()
            except errors.ApiError as error:
                logger.warning("runtimes not updated", extra={"error": error.message})
                await asyncio.sleep(RETRY_SECONDS)
                self._news.set()
            await asyncio.sleep(APART_SECONDS)

    async def look_now(self) -> None:
        """Grant turns, and write the statuses that have changed.

        After a start, it waits until all models are known. Otherwise more models than may follow
        at a time could, and the statuses would count too few.

        A status that cannot be written does not stop the others.

        Raises:
            ApiError: The models could not be listed, or a status could not be written; retry.
        """
        runtimes = self._runtimes.current
        if runtimes.unreadable or not runtimes.by_name:
            return  # those that may no longer be read may have been edited since
        if not await self._have_arrived():
            self._news.set()
            return
        found = map(user_of, self._store.models())
        users = [each for each in found if each]
        for key in sorted(self._turns.grant(runtimes.by_name.values(), users)):
            self._again(key, Urgency.SPEC)
        if self._statuses is None:
            return
        failures: list[errors.ApiError] = []
        for runtime in runtimes.by_name.values():
            before = self._runtimes.statuses.get(runtime.name, {})
            status = runtime_status(runtime, runtimes, users, before, self._now())
            if status != before:
                with errors.collected(failures):
                    await self._statuses.write(runtime, status)
        if failures:
            raise failures[0]
