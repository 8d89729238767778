"""Keeps the models in the store in sync with the cluster.

    kopf_source --> take --> store <-- sweep: deletions that kopf missed

A broken watch is reopened once the CRD is installed and the API server answers.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from moorage_operator.kube import auth, errors, kinds, requirements
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.reflector import Sink
from moorage_operator.store.existence import Existence
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.store.store import Store

from . import kopf_source
from .catching_up import catch_up
from .model_watch import ModelWatch
from .namespaces import Namespaces

__all__ = ["SWEEP_SECONDS", "Models"]

logger = logging.getLogger(__name__)

CRD_WAIT_SECONDS = 2.0
RESTART_SECONDS = 1.0
SWEEP_SECONDS = 600.0


class Models:
    """Watches the models.

    Args:
        client: The API.
        access: The same, for kopf.
        store: Receives the models.
        existence: Records which models exist.
        namespaces: The namespaces and whether each is served.
        selector: Label selector of the models to watch; "" for all.

    Attributes:
        watch: Whether the watch works.
        waiting: Why the watch cannot be opened; "" if nothing prevents it.
    """

    def __init__(
        self,
        client: KubeClient,
        access: auth.Access,
        store: Store,
        existence: Existence,
        namespaces: Namespaces,
        selector: str,
    ) -> None:
        self.watch = ModelWatch(namespaces.wanted, time.monotonic)
        self.waiting = "waiting for the API server"
        self._client = client
        self._access = access
        self._store = store
        self._existence = existence
        self._namespaces = namespaces
        self._selector = selector
        self._relist = asyncio.Event()

    def relist(self) -> None:
        """List all models again; kopf reports unchanged models only in a list."""
        self._relist.set()

    async def run(self) -> None:
        """Watch the models until cancelled; reopen a broken watch."""
        while True:
            await self.wait_for_crd()
            self._relist.clear()
            try:
                await self._forget_missed()
                await self._watch_once()
            except Exception as error:  # noqa: BLE001 -- kopf raises any exception
                logger.warning("watch of models failed", extra={"error": str(error)})
            await asyncio.sleep(RESTART_SECONDS)

    async def sweep(self) -> None:
        """Periodically find missed deletions until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self._forget_missed()
            except errors.ApiError as error:
                logger.warning("check for missed deletions failed", extra={"error": error.message})

    async def catch_up(self, runtimes: RuntimeStore, children: Mapping[str, Sink]) -> None:
        """Read what the watches have not shown in the latest version.

        Args:
            runtimes: Receives runtimes.
            children: Receive children, by kind.
        """
        names, is_served = self._namespaces.names, self._namespaces.is_served
        await catch_up(
            self._client,
            self._store,
            runtimes,
            children,
            lambda: [name for name in names if is_served(name)],
            selector=self._selector,
        )

    async def wait_for_crd(self) -> None:
        """Wait until the API server answers, is new enough and has the CRD."""
        logged = ""
        while True:
            try:
                reason = requirements.too_old(await self._client.server_version())
                if not reason and await self._client.serves(kinds.INFERENCE_MODELS):
                    self.waiting = ""
                    return
                reason = reason or (
                    "the CRD inferencemodels.moorage.dev is not installed: apply "
                    "crds/inferencemodels.yaml or install the chart"
                )
            except errors.ApiError as error:
                reason = f"the API server does not answer: {error.message}"
            self.waiting = reason
            if reason != logged:
                logger.warning("waiting", extra={"reason": reason})
                logged = reason
            await asyncio.sleep(CRD_WAIT_SECONDS)

    async def _watch_once(self) -> None:
        """Watch the models until the watch breaks or they have to be listed again."""
        take = partial(kopf_source.take, self._store, self._existence)
        watching = asyncio.create_task(
            kopf_source.watch_models(
                self._access, take, self._namespaces.wanted, self.watch, selector=self._selector
            )
        )
        relist = asyncio.create_task(self._relist.wait())
        try:
            await asyncio.wait([watching, relist], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (watching, relist):
                task.cancel()
            await asyncio.wait([watching, relist])
        if not watching.cancelled():
            watching.result()

    async def _forget_missed(self) -> None:
        is_served = any(map(self._namespaces.is_served, self._namespaces.names))
        if is_served and self._store.uids():
            gone = await kopf_source.sweep(
                self._client,
                self._store,
                self.served(),
                selector=self._selector,
            )
            if gone:
                logger.info("missed deletions found", extra={"models": gone})

    def served(self) -> Sequence[str]:
        """Return the configured namespaces that are served; none means all."""
        return [name for name in self._namespaces.wanted if self._namespaces.is_served(name)]
