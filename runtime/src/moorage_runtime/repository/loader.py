"""Brings the models of a repository into memory: the only part that reads model files.

    start-up, polling, load requests -> Loader -> listing, model.yaml, Backend.load -> Registry

Every model loads in a thread of its own, so that one that never finishes holds up no other and
no request. A version that fails stays known with the reason; a version that served before goes
on serving until its replacement is ready.
"""

import asyncio
import logging
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from moorage_runtime.backends.base import Backend, HttpModel, LoadedModel, ModelSource
from moorage_runtime.errors import InvalidConfig, ModelFailed, ModelNotFound, RuntimeFault
from moorage_runtime.execution import Runner
from moorage_runtime.inference import ModelMetadata
from moorage_runtime.repository import config as model_config
from moorage_runtime.repository import listing
from moorage_runtime.repository.config import LatestVersions, ModelConfig
from moorage_runtime.repository.daemon_thread import in_daemon_thread
from moorage_runtime.repository.layout import CONFIG_FILE, ModelLayout, VersionLayout
from moorage_runtime.repository.registry import Loaded, Model, Registry, Version

log = logging.getLogger(__name__)

# Loads at the same time; each may need twice a model's memory for a moment.
_CONCURRENT_LOADS: Final = 4


class LoaderOptions(msgspec.Struct, frozen=True):
    """How models are found and run.

    Attributes:
        root: The repository, one model's folder, or a model file; None serves no model.
        model_name: Makes the whole of ``root`` one model of this name.
        threads: Processor cores that this process may use.
        waiting: Requests that may wait for one version.
        poll_seconds: Time between looks for new versions; 0 never looks again.
        latest_versions: How many of a model's highest versions to serve; 0 serves all.
    """

    root: pathlib.Path | None
    model_name: str | None = None
    threads: int = 1
    waiting: int = 1000
    poll_seconds: float = 0.0
    latest_versions: int = 0


class Loader:
    """Keeps the registry in step with the repository.

    Args:
        options: How models are found and run.
        registry: Gets every change.
        backends: Format name to backend.
        on_loaded: Told of each load: model, version, outcome ("ok" or a reason), seconds.
        on_run: Told of each run in a thread: model, version, requests that ran together, seconds
            that each of them waited.
    """

    def __init__(
        self,
        options: LoaderOptions,
        registry: Registry,
        backends: Mapping[str, Backend],
        on_loaded: Callable[[str, str, str, float], None],
        on_run: Callable[[str, str, int, Sequence[float]], None],
    ) -> None:
        self._options = options
        self._registry = registry
        self._backends = backends
        self._on_loaded = on_loaded
        self._on_run = on_run
        self._slots = asyncio.Semaphore(_CONCURRENT_LOADS)
        self._unloaded_by_request: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Load everything, then look for changes for as long as polling is on."""
        await self.refresh()
        while self._options.poll_seconds:
            await asyncio.sleep(self._options.poll_seconds)
            await self.refresh()

    async def refresh(self) -> None:
        """Read the repository once and start what is new, changed or gone.

        Returns when the loads have begun, not when they have ended.
        """
        try:
            layouts = await self._read()
        except InvalidConfig as fault:
            # keep what serves; the folder may come back
            log.error("%s", fault.message)  # noqa: TRY400 - expected trouble, no trace
            return
        for layout in layouts:
            if layout.name not in self._unloaded_by_request:
                await self._take_over(layout, reload=False)
        found = {layout.name for layout in layouts}
        for name in self._registry.names:
            if name not in found:
                self._forget(name)
        self._registry.is_scanned = True
        self._registry.changed()

    async def load(self, name: str) -> None:
        """Load or re-load all versions of a model; returns when they are loaded.

        Raises:
            ModelNotFound: The repository holds no such model.
            ModelFailed: A version failed to load; what served before still does.
        """
        layout = next((item for item in await self._read() if item.name == name), None)
        if layout is None:
            raise ModelNotFound(f"the model repository holds no model '{name}'")
        self._unloaded_by_request.discard(name)
        tasks = await self._take_over(layout, reload=True)
        if tasks:
            await asyncio.wait(tasks)
        problems = [
            version.message
            for version in self._registry.model(name).versions.values()
            if version.message
        ]
        if problems:
            raise ModelFailed(f"failed to load '{name}': {'; '.join(problems)}")

    async def unload(self, name: str) -> None:
        """Unload every version of a model; it stays known and unloaded until it is loaded again.

        Raises:
            ModelNotFound: There is no such model.
            RepositoryUnread: What there is, is not known yet.
        """
        if name not in self._registry.names:
            self._registry.check_scanned()
            raise ModelNotFound(f"unknown model '{name}'")
        self._unloaded_by_request.add(name)
        model = self._registry.model(name)
        for version in model.versions.values():
            self._retire(version)
        self._registry.changed(model)

    def close(self) -> None:
        """Stop what is still loading as far as that is possible."""
        for task in self._tasks:
            task.cancel()

    async def _read(self) -> tuple[ModelLayout, ...]:
        if self._options.root is None:
            return ()
        return await asyncio.to_thread(listing.read, self._options.root, self._options.model_name)

    async def _take_over(self, layout: ModelLayout, *, reload: bool) -> list[asyncio.Task[None]]:
        """Bring one model in step with its layout; the loads that this began."""
        try:
            config = await asyncio.to_thread(self._config, layout)
            wanted = _wanted(layout, config, self._options.latest_versions)
        except InvalidConfig as fault:
            log.error("model '%s': %s", layout.name, fault.message)  # noqa: TRY400 - the same
            self._fail_all(layout, fault.message)
            return []
        # known from here on, together with its versions
        model = self._registry.model(layout.name)
        model.default_version = config.default_version
        model.is_default = config.default
        for gone in [v for v in model.versions if v not in {w.version for w in wanted}]:
            self._retire(model.versions.pop(gone))
        tasks: list[asyncio.Task[None]] = []
        for item in wanted:
            task = self._begin(model, layout, item, config, reload=reload)
            if task is not None:
                tasks.append(task)
        self._registry.changed(model)
        return tasks

    def _begin(
        self,
        model: Model,
        layout: ModelLayout,
        item: VersionLayout,
        config: ModelConfig,
        *,
        reload: bool,
    ) -> asyncio.Task[None] | None:
        """Start loading a version when it is new, unloaded, changed after a failure, or asked."""
        key = (model.name, item.version)
        if key in self._running:
            return self._running[key]
        version = model.versions.setdefault(item.version, Version(model.name, item.version))
        path = self._path(layout, item)
        seen = listing.fingerprint(path) if path is not None else item.problem
        again = version.state == "UNLOADED" or (
            version.state == "FAILED" and seen != version.fingerprint
        )
        if version.fingerprint and not again and not reload:
            return None
        version.fingerprint = seen
        version.message = ""
        if version.loaded is None:
            version.state = "LOADING"
        task = asyncio.create_task(self._load(model, version, path, item, config))
        self._running[key] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._running.pop(key, None))
        return task

    async def _load(
        self,
        model: Model,
        version: Version,
        path: pathlib.Path | None,
        item: VersionLayout,
        config: ModelConfig,
    ) -> None:
        started = time.perf_counter()
        what = f"model '{version.name}' version '{version.version}'"
        try:
            async with self._slots:
                loaded = await self._load_files(version, path, item, config)
        except RuntimeFault as fault:
            version.message = fault.message
            if version.loaded is None:
                version.state = "FAILED"
            self._on_loaded(version.name, version.version, fault.reason, 0.0)
            log.error("%s failed to load: %s", what, fault.message)  # noqa: TRY400 - the same
        else:
            seconds = time.perf_counter() - started
            if version.state == "UNLOADED" or model.versions.get(version.version) is not version:
                loaded.runner.close()
                return
            before, version.loaded = version.loaded, loaded
            version.state = "READY"
            if before is not None:
                before.runner.close()
            self._on_loaded(version.name, version.version, "ok", seconds)
            log.info("%s is ready after %.2f s", what, seconds)
        self._registry.changed(model)

    async def _load_files(
        self,
        version: Version,
        path: pathlib.Path | None,
        item: VersionLayout,
        config: ModelConfig,
    ) -> Loaded:
        if path is None:
            raise InvalidConfig(item.problem)
        backend = self._backends.get(config.backend or item.format)
        if backend is None:
            raise InvalidConfig(
                f"{path.name}: this server has no backend '{config.backend or item.format}', "
                f"expected one of {', '.join(self._backends)}"
            )
        source = _source(version, path, config, self._options.threads)
        loaded = await in_daemon_thread(lambda: backend.load(source), f"load-{version.name}")
        batching = model_config.batching_policy(
            config, loaded.inputs, loaded.outputs, row_wise=loaded.row_wise
        )
        runner = Runner(
            loaded,
            version.name,
            threads=self._options.threads,
            waiting=self._options.waiting,
            batching=batching,
            observe=partial(self._on_run, version.name, version.version),
        )
        return Loaded(_metadata(version, loaded, config), runner)

    def _config(self, layout: ModelLayout) -> ModelConfig:
        if not layout.has_config or self._options.root is None:
            return model_config.NO_CONFIG
        path = self._options.root / layout.folder / CONFIG_FILE
        try:
            return model_config.parse(path.read_bytes())
        except OSError as error:
            raise InvalidConfig(f"model.yaml cannot be read: {error.strerror}") from error

    def _path(self, layout: ModelLayout, item: VersionLayout) -> pathlib.Path | None:
        root = self._options.root
        if root is None or not item.file:
            return None
        return root if root.is_file() else root / layout.folder / item.folder / item.file

    def _fail_all(self, layout: ModelLayout, message: str) -> None:
        model = self._registry.model(layout.name)
        for item in layout.versions:
            version = model.versions.setdefault(item.version, Version(model.name, item.version))
            version.message = message
            if version.loaded is None:
                version.state = "FAILED"
            # not a fingerprint of files: the next look tries again
            version.fingerprint = message
        self._registry.changed(model)

    def _forget(self, name: str) -> None:
        for version in self._registry.model(name).versions.values():
            self._retire(version)
        self._registry.remove(name)

    def _retire(self, version: Version) -> None:
        version.state = "UNLOADED"
        version.message = ""
        loaded, version.loaded = version.loaded, None
        if loaded is not None:
            loaded.runner.close()


def _wanted(layout: ModelLayout, config: ModelConfig, latest: int) -> tuple[VersionLayout, ...]:
    """The versions that the configuration asks for, else the latest so many; 0 is all.

    Raises:
        InvalidConfig: It names a version that has no folder, or that is not served.
    """
    have = layout.versions
    if isinstance(config.versions, LatestVersions):
        latest = config.versions.latest
    elif config.versions is not None:
        _check_versions(have, {f"versions[{i}]": v for i, v in enumerate(config.versions)})
        have = tuple(item for item in have if item.version in config.versions)
        latest = 0
    have = have[-latest:]
    fields = {f"labels.{label}": version for label, version in config.labels.items()}
    if config.default_version is not None:
        fields["default_version"] = config.default_version
    _check_versions(have, fields)
    return have


def _check_versions(have: Sequence[VersionLayout], fields: Mapping[str, str]) -> None:
    names = [item.version for item in have]
    for field, version in fields.items():
        if version not in names:
            raise InvalidConfig(
                f"model.yaml: {field}: there is no version '{version}', expected one of "
                f"{', '.join(names)}"
            )


def _source(
    version: Version, path: pathlib.Path, config: ModelConfig, threads: int
) -> ModelSource:
    options: dict[str, Any] = {
        "parameters": config.parameters,
        "python_class": config.python_class,
        "threads": config.onnx.threads,
        "openvino_threads": config.openvino.threads,
        "torchscript_threads": config.torchscript.threads,
        "trusted_types": config.sklearn.trusted_types,
    }
    return ModelSource(
        version.name,
        version.version,
        path,
        None if config.inputs is None else model_config.specs(config.inputs),
        None if config.outputs is None else model_config.specs(config.outputs),
        options,
        threads,
    )


def _metadata(version: Version, loaded: LoadedModel, config: ModelConfig) -> ModelMetadata:
    return ModelMetadata(
        version.name,
        version.version,
        (version.version,),
        config.platform or loaded.platform,
        loaded.inputs,
        loaded.outputs,
        batching=model_config.has_batch(config, loaded.inputs, loaded.outputs),
        dynamic=loaded.dynamic,
        signatures=model_config.signatures(config) or loaded.signatures,
        labels=config.labels,
        version_numbers=config.version_numbers,
        http_path=loaded.http_path if isinstance(loaded, HttpModel) else "",
        http_predict=isinstance(loaded, HttpModel) and loaded.http_predict,
    )
