"""What every frontend calls and the only thing it calls: the server without any protocol.

frontend -> Dataplane -> registry, rules, runner -> backend
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from moorage_runtime.errors import RuntimeFault, reason_of
from moorage_runtime.inference import (
    HttpCall,
    HttpReply,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatus,
    ServerMetadata,
)
from moorage_runtime.metrics import InferenceMetrics
from moorage_runtime.others import Change, Others
from moorage_runtime.repository.loader import Loader
from moorage_runtime.repository.registry import Loaded, Registry
from moorage_runtime.tally import OK
from moorage_runtime.tensors import Tensor

CANCELLED: Final = "Cancelled"


class Dataplane:
    """The server's state and its one operation.

    Args:
        registry: The models.
        loader: Loads and unloads on request.
        server: What the server says of itself.
        metrics: Gets every inference.
        default_model: Model for requests of protocols that may name none.
        online: Initial state of the traffic switch (R3-044).
        others: The other workers of the server, None when this process is all of it.
    """

    def __init__(  # noqa: PLR0913 - the parts of a server; all but two by keyword
        self,
        registry: Registry,
        loader: Loader,
        *,
        server: ServerMetadata,
        metrics: InferenceMetrics,
        default_model: str | None = None,
        online: bool = True,
        others: Others | None = None,
    ) -> None:
        self._registry = registry
        self._loader = loader
        self._server = server
        self._metrics = metrics
        self._default_model = default_model
        self._is_online = online
        self._others = others
        self._is_draining = False
        self._watchers: list[Callable[[], None]] = []
        registry.watch(self._changed)

    # Health: plain reads, so that nothing can hold them up (C-020).

    def live(self) -> bool:
        """The process can answer requests; also while models load or the server drains."""
        return True

    def ready(self) -> bool:
        """Every worker is online, not draining, and every configured model is ready."""
        return self.ready_here() and (self._others is None or self._others.are_ready())

    def ready_here(self) -> bool:
        """As ``ready``, of this worker alone."""
        return self._is_online and not self._is_draining and self.has_loaded()

    def has_loaded(self) -> bool:
        """Every configured model can answer."""
        return self._registry.is_ready()

    def accepting(self) -> bool:
        """False from the moment the server was told to end."""
        return not self._is_draining

    def is_online(self) -> bool:
        """The traffic switch of GRPS (R3-042)."""
        return self._is_online

    async def online(self) -> None:
        """Put the server into traffic; idempotent."""
        await self._change("online")

    async def offline(self) -> None:
        """Take the server out of traffic; what it serves is unaffected; idempotent."""
        await self._change("offline")

    def drain(self) -> None:
        """The server ends soon: not ready from now on, for good (C-021)."""
        self._is_draining = True
        self._changed()

    def on_readiness_change(self, callback: Callable[[], None]) -> None:
        """Call back after anything that may change an answer about readiness."""
        self._watchers.append(callback)

    # What there is.

    def server_metadata(self) -> ServerMetadata:
        """Name, version and extensions."""
        return self._server

    def model_ready(self, name: str, version: str = "") -> ModelStatus:
        """State of the version that a request with this version would reach.

        Raises:
            ModelNotFound, VersionNotFound: There is none.
            RepositoryUnread: As ``check_scanned``.
        """
        status = self._registry.find(name, version).status()
        if self._is_draining and status.state == "READY":
            return msgspec.structs.replace(
                status, state="UNLOADED", message="the server is shutting down"
            )
        return status if self._others is None else self._others.worst(status)

    def model_metadata(self, name: str, version: str = "") -> ModelMetadata:
        """Metadata of the version that a request with this version would reach.

        Raises:
            ModelNotFound, VersionNotFound, RepositoryUnread: As ``model_ready``.
            ModelNotReady: It is not loaded.
        """
        return self._registry.loaded(name, version).metadata

    def model_index(self) -> tuple[ModelStatus, ...]:
        """Every known version of every model, with its state."""
        statuses = self._registry.statuses()
        return statuses if self._others is None else tuple(map(self._others.worst, statuses))

    def index_here(self) -> tuple[ModelStatus, ...]:
        """As ``model_index``, of this worker alone."""
        return self._registry.statuses()

    def check_scanned(self) -> None:
        """To be asked before a name is called unknown.

        Raises:
            RepositoryUnread: What the repository holds is not known yet.
        """
        self._registry.check_scanned()

    def labelled(self, label: str) -> tuple[str, str] | None:
        """Model and version of a label of GRPS; see the registry's ``labelled``."""
        return self._registry.labelled(label)

    def default_model(self) -> str | None:
        """The configured default, else the only model, else None."""
        return self._default_model or self._registry.default()

    # Inference.

    async def infer(self, request: InferRequest) -> InferResponse:
        """Answer one request.

        Raises:
            RuntimeFault: Any of the errors of ``errors``.
        """
        begun = self.begin(request)
        return begun if isinstance(begun, InferResponse) else await begun

    def begin(self, request: InferRequest) -> InferResponse | Awaitable[InferResponse]:
        """Answer one request: at once where the model is known to be quick, else by awaiting.

        An answer at once needs no task, which costs as much as a small model.

        Raises:
            RuntimeFault: As ``infer``; the awaitable raises it too.
        """
        started = time.perf_counter()
        name, version = request.model_name, request.model_version
        try:
            loaded = self._registry.loaded(name, version)
            version = loaded.metadata.version
            rules = loaded.rules
            rules.check(request)
            outputs = loaded.runner.begin(request)
            if not isinstance(outputs, tuple):
                return self._finish(request, loaded, outputs, started)
            outputs = rules.select(request, outputs)
        except Exception as error:
            self._record(request, version, reason_of(error), started)
            raise
        self._metrics.record(name, version, OK, time.perf_counter() - started)
        return InferResponse(name, version, outputs, request.id)

    async def _finish(
        self,
        request: InferRequest,
        loaded: Loaded,
        running: Awaitable[tuple[Tensor, ...]],
        started: float,
    ) -> InferResponse:
        outcome = CANCELLED
        version = loaded.metadata.version
        try:
            outputs = loaded.rules.select(request, await running)
            outcome = OK
        except RuntimeFault as fault:
            outcome = fault.reason
            raise
        finally:
            self._record(request, version, outcome, started)
        return _response(request, version, outputs)

    async def infer_stream(self, request: InferRequest) -> AsyncIterator[InferResponse]:
        """Answer one request in as many parts as the model gives.

        Raises:
            RuntimeFault: As ``infer``, also after some parts.
        """
        started = time.perf_counter()
        outcome = CANCELLED
        version = request.model_version
        try:
            loaded = self._registry.loaded(request.model_name, request.model_version)
            version = loaded.metadata.version
            loaded.rules.check(request)
            async for outputs in loaded.runner.stream(request):
                yield _response(request, version, loaded.rules.select(request, outputs))
            outcome = OK
        except RuntimeFault as fault:
            outcome = fault.reason
            raise
        finally:
            self._record(request, version, outcome, started)

    def http_model(self, path: str) -> str | None:
        """The model that answers at this path in a format of its own, None for none.

        Args:
            path: The path, percent-decoded.
        """
        for name in self._registry.names:
            chosen = self._registry.chosen(name)
            if chosen is not None and chosen.metadata.http_path == path:
                return name
        return None

    async def http(self, name: str, version: str, call: HttpCall) -> AsyncIterator[HttpReply]:
        """Let a model answer in a format of its own; see the runner's ``http``.

        Raises:
            RuntimeFault: As ``infer``, also after some parts.
        """
        started = time.perf_counter()
        outcome = CANCELLED
        try:
            loaded = self._registry.loaded(name, version)
            version = loaded.metadata.version
            async for reply in loaded.runner.http(call):
                yield reply
            outcome = OK
        except RuntimeFault as fault:
            outcome = fault.reason
            raise
        finally:
            self._metrics.record(name, version, outcome, time.perf_counter() - started)

    # Model repository extension.

    async def load(self, name: str) -> None:
        """Load or re-load a model of the repository.

        Raises:
            ModelNotFound, ModelFailed: As the loader's ``load``.
        """
        await self._change("load", name)

    async def unload(self, name: str) -> None:
        """Unload a model.

        Raises:
            ModelNotFound: There is no such model.
        """
        await self._change("unload", name)

    # Several workers.

    async def change_here(self, change: Change, name: str) -> None:
        """Make a change in this worker alone.

        Args:
            change: What to do.
            name: Of the model, "" for the traffic switch.

        Raises:
            ModelNotFound, ModelFailed: As ``load`` and ``unload``.
        """
        match change:
            case "load":
                await self._loader.load(name)
            case "unload":
                await self._loader.unload(name)
            case "online" | "offline":
                self._is_online = change == "online"
                self._changed()

    def others_changed(self) -> None:
        """The other workers have told something new."""
        self._changed()

    async def _change(self, change: Change, name: str = "") -> None:
        if self._others is None:
            await self.change_here(change, name)
        else:
            await self._others.change(change, name)

    def _record(self, request: InferRequest, version: str, outcome: str, started: float) -> None:
        self._metrics.record(request.model_name, version, outcome, time.perf_counter() - started)

    def _changed(self) -> None:
        for callback in self._watchers:
            callback()


def _response(request: InferRequest, version: str, outputs: tuple[Tensor, ...]) -> InferResponse:
    return InferResponse(request.model_name, version, outputs, request.id)
