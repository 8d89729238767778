"""The server without any protocol, and the only module that frontends call.

frontend -> Dataplane -> registry, rules, runner -> backend
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from moorage_runtime.dataplane.metrics import InferenceMetrics
from moorage_runtime.dataplane.others import Change, Others
from moorage_runtime.dataplane.tally import Recording
from moorage_runtime.repository.loader import Loader
from moorage_runtime.repository.registry import Loaded, Registry
from moorage_runtime.values.inference import (
    HttpCall,
    HttpReply,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatus,
    ServerMetadata,
)
from moorage_runtime.values.tensors import Tensor


class Dataplane:
    """The state of the server, and inference.

    Args:
        registry: The models.
        loader: Loads and unloads on request.
        server: Metadata of the server.
        metrics: Records every inference.
        default_model: Model for requests without a model name.
        online: Initial state of the traffic switch (R3-044).
        others: The other workers of the server, or None if there is only one process.
    """

    def __init__(  # noqa: PLR0913 - the parts of a server, mostly keywords
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

    # Health: plain reads that nothing can block (C-020).

    def live(self) -> bool:
        """The process can answer requests, even while models load or the server drains."""
        return True

    def ready(self) -> bool:
        """Every worker is online, not draining, and ready according to ``--ready-when``."""
        return self.ready_here() and (self._others is None or self._others.are_ready())

    def ready_here(self) -> bool:
        """Like ``ready``, for this worker alone."""
        return self._is_online and not self._is_draining and self._registry.is_ready()

    def repository_problem(self) -> str:
        """Why the model repository contains no models, "" if it contains any."""
        return self._registry.problem

    def has_loaded(self) -> bool:
        """The first load of every model has ended, successfully or not."""
        return self._registry.has_settled()

    def accepting(self) -> bool:
        """False after the server was told to stop."""
        return not self._is_draining

    def is_online(self) -> bool:
        """The traffic switch of GRPS (R3-042)."""
        return self._is_online

    async def online(self) -> None:
        """Put the server online; idempotent."""
        await self._change("online")

    async def offline(self) -> None:
        """Take the server offline without changing its models; idempotent."""
        await self._change("offline")

    def drain(self) -> None:
        """The server stops soon: it is not ready from now on (C-021)."""
        self._is_draining = True
        self._changed()

    def on_readiness_change(self, callback: Callable[[], None]) -> None:
        """Register a callback for changes that may affect readiness."""
        self._watchers.append(callback)

    # Models and metadata.

    def server_metadata(self) -> ServerMetadata:
        """Name, version and extensions."""
        return self._server

    def model_ready(self, name: str, version: str = "") -> ModelStatus:
        """State of the version that a request with this version would reach.

        Raises:
            ModelNotFound, VersionNotFound: It does not exist.
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
        """Like ``model_index``, for this worker alone."""
        return self._registry.statuses()

    def check_scanned(self) -> None:
        """Call this before reporting a name as unknown.

        Raises:
            RepositoryUnread: The repository has not been read yet.
        """
        self._registry.check_scanned()

    def labelled(self, label: str) -> tuple[str, str] | None:
        """Model and version for a GRPS label; see the registry's ``labelled``."""
        return self._registry.labelled(label)

    def default_model(self) -> str | None:
        """The configured default model, otherwise the only model, otherwise None."""
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
        """Answer one request: at once if its run is provably short, otherwise as an awaitable.

        A response at once needs no task, whose cost is comparable to that of a small model.

        Raises:
            RuntimeFault: As ``infer``; the awaitable raises it too.
        """
        name = request.model_name
        with self._recording(name, request.model_version) as recording:
            loaded = self._registry.loaded(name, request.model_version)
            recording.version = version = loaded.metadata.version
            rules = loaded.rules
            rules.check(request)
            outputs = loaded.runner.begin(request)
            if not isinstance(outputs, tuple):
                return self._finish(request, loaded, outputs, recording.suspended())
            outputs = rules.select(request, outputs)
        return InferResponse(name, version, outputs, request.id)

    async def _finish(
        self,
        request: InferRequest,
        loaded: Loaded,
        running: Awaitable[tuple[Tensor, ...]],
        recording: Recording,
    ) -> InferResponse:
        with recording:
            outputs = loaded.rules.select(request, await running)
        return _response(request, recording.version, outputs)

    async def infer_stream(self, request: InferRequest) -> AsyncIterator[InferResponse]:
        """Answer one request in as many parts as the model yields.

        Raises:
            RuntimeFault: As ``infer``, even after some parts.
        """
        with self._recording(request.model_name, request.model_version) as recording:
            loaded = self._registry.loaded(request.model_name, request.model_version)
            recording.version = version = loaded.metadata.version
            loaded.rules.check(request)
            async for outputs in loaded.runner.stream(request):
                yield _response(request, version, loaded.rules.select(request, outputs))

    def http_model(self, path: str) -> str | None:
        """The model with its own HTTP format at this path, or None.

        Args:
            path: The path, percent-decoded.
        """
        for name in self._registry.names:
            chosen = self._registry.chosen(name)
            if chosen is not None and chosen.metadata.http_path == path:
                return name
        return None

    async def http(self, name: str, version: str, call: HttpCall) -> AsyncIterator[HttpReply]:
        """Let a model answer in its own HTTP format; see the runner's ``http``.

        Raises:
            RuntimeFault: As ``infer``, even after some parts.
        """
        with self._recording(name, version) as recording:
            loaded = self._registry.loaded(name, version)
            recording.version = loaded.metadata.version
            async for reply in loaded.runner.http(call):
                yield reply

    # Model repository extension.

    async def load(self, name: str) -> None:
        """Load or reload a model of the repository.

        Raises:
            ModelNotFound, ModelFailed: As the loader's ``load``.
        """
        await self._change("load", name)

    async def unload(self, name: str) -> None:
        """Unload a model.

        Raises:
            ModelNotFound: The model does not exist.
        """
        await self._change("unload", name)

    # Several workers.

    async def change_here(self, change: Change, name: str) -> None:
        """Apply a change in this worker alone.

        Args:
            change: The change.
            name: Name of the model, "" for the traffic switch.

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
        """Notify watchers after a change of the other workers' states."""
        self._changed()

    async def _change(self, change: Change, name: str = "") -> None:
        if self._others is None:
            await self.change_here(change, name)
        else:
            await self._others.change(change, name)

    def _recording(self, model: str, version: str) -> Recording:
        return Recording(self._metrics.record, model, version)

    def _changed(self) -> None:
        for callback in self._watchers:
            callback()


def _response(request: InferRequest, version: str, outputs: tuple[Tensor, ...]) -> InferResponse:
    return InferResponse(request.model_name, version, outputs, request.id)
