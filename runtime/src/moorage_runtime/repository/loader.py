"""Synchronizes the registry with the repository, and loads and unloads models for clients.

    startup, polling, load requests -> Loader -> listing, model.yaml, Loading -> Registry

A scan is applied in one step of the event loop, so it is atomic. Every version loads in its own
thread: one that never finishes delays neither other versions nor requests. A version that fails
keeps its reason. A version that served before keeps serving until its replacement is ready. A
failure affects only its own model.
"""

import asyncio
import logging
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from moorage_runtime.backends.base import Backend
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.repository import listing
from moorage_runtime.repository.contents import choice, yaml_text
from moorage_runtime.repository.contents import config as model_config
from moorage_runtime.repository.contents.config import ModelConfig
from moorage_runtime.repository.contents.layout import (
    CONFIG_FILE,
    UNVERSIONED,
    ModelLayout,
    Stamp,
    VersionLayout,
)
from moorage_runtime.repository.listing import Listing
from moorage_runtime.repository.loading import Limits, Loading, LoadOrder, described
from moorage_runtime.repository.registry import Loaded, Model, Registry, Version
from moorage_runtime.repository.skipped import Note, note
from moorage_runtime.values.budget import ByteBudget
from moorage_runtime.values.errors import InvalidConfig, ModelFailed, ModelNotFound, RuntimeFault

log = logging.getLogger(__name__)

# Concurrent loads; each may temporarily need twice the memory of its model.
_CONCURRENT_LOADS: Final = 4


class LoaderOptions(msgspec.Struct, frozen=True):
    """How models are found and run.

    Attributes:
        root: The repository, one model's folder, or a model file; None serves no model.
        model_name: Makes the whole of ``root`` one model with this name.
        threads: Processor cores that this process may use.
        waiting: Requests that may wait for one version.
        poll_seconds: Interval between scans for changes; 0 disables them.
        latest_versions: How many of a model's highest versions to serve; 0 serves all.
        timeout_seconds: Maximum time of a request; 0 is no limit.
        budget: Limits the memory of all requests.
        allow_pickle: Whether model files that are pickles are loaded.
    """

    root: pathlib.Path | None
    model_name: str | None = None
    threads: int = 1
    waiting: int = 1000
    poll_seconds: float = 0.0
    latest_versions: int = 0
    timeout_seconds: float = 0.0
    budget: ByteBudget = msgspec.field(default_factory=ByteBudget)
    allow_pickle: bool = False


class _Load:
    """One load of one version, which a later load of the same version replaces."""

    def __init__(self, order: LoadOrder) -> None:
        self.order = order
        self.has_begun = False


class _Track:
    """The loader's record of a version.

    Attributes:
        tried: The last load, successful or not.
        failure: Why that load failed, "" if it succeeded.
        glimpsed: A change that only the last scan has seen.
        load: The current load.
        config: The configuration from which the metadata of the loaded version was built.
    """

    def __init__(self) -> None:
        self.tried: LoadOrder | None = None
        self.failure = ""
        self.glimpsed: LoadOrder | None = None
        self.load: _Load | None = None
        self.config: ModelConfig | None = None

    def report(self, load: _Load, version: Version, activity: str) -> None:
        """Record what a load is doing, unless it has ended or was replaced."""
        if self.load is load:
            version.activity = activity


class _Look(msgspec.Struct, frozen=True):
    """The models on the disk, each with its configuration or the problem of it."""

    listing: Listing
    configs: Mapping[str, tuple[Stamp, ModelConfig | str]]


class Loader:
    """Synchronizes the registry with the repository.

    Args:
        options: How models are found and run.
        registry: Receives every change.
        backends: Format name to backend.
        on_loaded: Called after each load with model, version, outcome ("ok" or a reason), seconds.
        on_run: Called for each run in a thread with model, version, the number of merged requests,
            and the seconds that each of them waited.
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
        limits = Limits(
            options.threads,
            options.waiting,
            options.timeout_seconds,
            options.budget,
        )
        self._loading = Loading(
            backends,
            limits,
            on_run,
            self._registry.changed,
            allow_pickle=options.allow_pickle,
        )
        self._on_loaded = on_loaded
        self._slots = asyncio.Semaphore(_CONCURRENT_LOADS)
        # a scan is applied before the next one starts
        self._looking = asyncio.Lock()
        self._configs: Mapping[str, tuple[Stamp, ModelConfig | str]] = {}
        self._applied: dict[str, Stamp] = {}
        self._tracks: dict[tuple[str, str], _Track] = {}
        self._unloaded_by_request: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changes = asyncio.Condition()
        self._logged = ""

    async def run(self) -> None:
        """Load all models, then look for changes while polling is enabled."""
        while True:
            try:
                await self.refresh()
            except Exception:
                # the next scan may succeed; a server that stops scanning never notices changes
                log.exception("the scan of the model repository failed")
            if not self._options.poll_seconds:
                return
            await asyncio.sleep(self._options.poll_seconds)

    async def refresh(self) -> None:
        """Scan the repository once and start loading what is new or changed.

        Returns when the loads have started, not when they have finished.
        """
        async with self._looking:
            try:
                look = await asyncio.to_thread(self._look)
            except InvalidConfig as fault:
                # keep what serves; the folder may come back
                self._log_once(logging.ERROR, fault.message)
                return
            self._apply(look)

    async def load(self, name: str) -> None:
        """Load or re-load all versions of a model; returns when they are loaded.

        Raises:
            ModelNotFound: The repository does not contain the model.
            ModelFailed: A version failed to load, and the previous one still serves; or another
            request unloaded the model in the meantime.
        """
        async with self._looking:
            look = await asyncio.to_thread(self._look)
            layout = next((item for item in look.listing.models if item.name == name), None)
            if layout is None:
                raise ModelNotFound(f"the model repository contains no model '{name}'")
            self._configs = look.configs
            self._unloaded_by_request.discard(name)
            self._take_over(layout, look.configs[name][1], asked=True)
            self._registry.changed()
        async with self._changes:
            await self._changes.wait_for(lambda: not self._is_loading(name))
        model = self._registry.get(name)
        if model is None or name in self._unloaded_by_request:
            raise ModelFailed(f"model '{name}' was unloaded or removed while it was loading")
        problems = [version.message for version in model.versions.values() if version.message]
        if problems:
            raise ModelFailed(f"failed to load model '{name}': {'; '.join(problems)}")

    async def unload(self, name: str) -> None:
        """Unload every version of a model; it stays known and unloaded until it is loaded again.

        Raises:
            ModelNotFound: The model does not exist.
            RepositoryUnread: The repository has not been read yet.
        """
        model = self._registry.get(name)
        if model is None:
            self._registry.check_scanned()
            raise ModelNotFound(f"unknown model '{name}'")
        self._unloaded_by_request.add(name)
        for version in model.versions.values():
            self._retire(version)
        self._registry.changed(model)
        await self._tell_waiting()

    def close(self) -> None:
        """Cancel current loads, as far as possible."""
        for task in self._tasks:
            task.cancel()

    def _look(self) -> _Look:
        """Read the disk; blocks.

        Raises:
            InvalidConfig: There is no repository, or it cannot be read.
        """
        root = self._options.root
        if root is None:
            return _Look(Listing(()), {})
        found = listing.read(root, self._options.model_name)
        configs: dict[str, tuple[Stamp, ModelConfig | str]] = {}
        for layout in found.models:
            known = self._configs.get(layout.name)
            stamp = (layout.config_stamp, layout.problem)
            if known is None or known[0] != stamp:
                known = (stamp, _config(root, layout))
            configs[layout.name] = known
        return _Look(found, configs)

    def _apply(self, look: _Look) -> None:
        """Synchronize the registry with a scan."""
        self._configs = look.configs
        self._log_skipped(look.listing)
        is_changed = not self._registry.is_scanned
        for layout in look.listing.models:
            if self._applied.get(layout.name) == (layout.stamp, layout.problem):
                continue
            is_changed = True
            try:
                is_done = self._take_over(layout, look.configs[layout.name][1], asked=False)
            except Exception as error:
                log.exception("model '%s' could not be applied", layout.name)
                self._fail_all(layout, sentence_of(error))
                is_done = True
            if is_done:
                self._applied[layout.name] = (layout.stamp, layout.problem)
        found = {layout.name for layout in look.listing.models}
        for name in self._registry.names:
            if name not in found:
                is_changed = True
                self._forget(name)
        self._registry.is_scanned = True
        if is_changed:
            self._registry.changed()

    def _take_over(self, layout: ModelLayout, config: ModelConfig | str, *, asked: bool) -> bool:
        """Synchronize one model with its layout; return whether it needs no further scan."""
        self._applied.pop(layout.name, None)
        try:
            if isinstance(config, str):
                raise InvalidConfig(config)  # noqa: TRY301 - all problems of a model are handled below
            wanted = choice.wanted(layout, config, self._options.latest_versions)
        except InvalidConfig as fault:
            log.error("model '%s': %s", layout.name, fault.message)  # noqa: TRY400 - an expected error, without a trace
            self._fail_all(layout, fault.message)
            return True
        if absent := choice.without_folder(layout, config):
            log.warning(
                "model '%s': model.yaml: version_numbers: without effect for versions that do not "
                "exist: %s",
                layout.name,
                ", ".join(absent),
            )
        # publish the model together with its versions
        model = self._registry.model(layout.name)
        model.default_version = config.default_version
        model.is_default = config.default
        self._keep_only(model, wanted)
        is_done = True
        for item in wanted:
            version = model.versions.setdefault(item.version, Version(model.name, item.version))
            order = LoadOrder(item, self._path(layout, item), config, layout.stamp)
            if model.name in self._unloaded_by_request:
                self._retire(version)
            else:
                is_done = self._follow(model, version, order, asked=asked) and is_done
        self._registry.renew(model)
        return is_done

    def _follow(self, model: Model, version: Version, order: LoadOrder, *, asked: bool) -> bool:
        """Load a version if necessary; return whether no further scan is needed for it."""
        track = self._tracks.setdefault((version.name, version.version), _Track())
        under_way = track.load
        if under_way is not None and not under_way.has_begun:
            under_way.order = order
            return True
        if not asked:
            if under_way is not None:
                return False
            if not self._is_due(version, track, order):
                return track.glimpsed is None
        track.glimpsed = None
        load = track.load = _Load(order)
        version.begin()
        task = asyncio.create_task(self._load(model, version, load))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _is_due(self, version: Version, track: _Track, order: LoadOrder) -> bool:
        """Whether the version must be loaded; changes that need no load are applied here."""
        tried, glimpsed = track.tried, track.glimpsed
        track.glimpsed = None
        if tried is None:
            return True
        if track.failure:
            if order.may_load_where_failed(tried):
                return True
            version.fail(track.failure)
            return False
        if not order.loads_as(tried):
            # replace a serving version only after two equal scans: the first may see a partial
            # copy
            if glimpsed is not None and order.loads_as(glimpsed):
                return True
            track.glimpsed = order
            return False
        version.message = ""
        if version.loaded is not None and track.config != order.config:
            try:
                version.loaded = described(version, version.loaded.runner, order.config)
                track.config = order.config
            except InvalidConfig as fault:
                version.fail(fault.message)
                log.error("model '%s': %s", version.name, fault.message)  # noqa: TRY400 - expected
        return False

    async def _load(self, model: Model, version: Version, load: _Load) -> None:
        what = f"model '{version.name}' version '{version.version}'"
        track = self._tracks[version.name, version.version]
        async with self._slots:
            started = time.perf_counter()
            if track.load is not load:
                return
            load.has_begun = True
            fault: RuntimeFault | None = None
            loaded: Loaded | None = None
            try:
                report = partial(track.report, load, version)
                loaded = await self._loading.load(version.name, load.order, report)
            except RuntimeFault as error:
                # its trace and causes refer to what was loaded: weights would stay until the
                # interpreter next looks for cycles
                fault = error.with_traceback(None)
                fault.__cause__ = fault.__context__ = None
            except Exception as error:
                log.exception("%s failed to load", what)
                fault = ModelFailed(sentence_of(error))
        if track.load is not load:
            # unloaded, removed or reloaded in the meantime: the last request counts
            if loaded is not None:
                loaded.runner.close()
            return
        track.load = None
        track.tried = load.order
        track.failure = fault.message if fault is not None else ""
        if fault is not None:
            version.fail(fault.message)
            self._on_loaded(version.name, version.version, fault.reason, 0.0)
            log.error("%s failed to load: %s", what, version.message)
        elif loaded is not None:
            seconds = time.perf_counter() - started
            before, version.loaded = version.loaded, loaded
            version.state, version.message = "READY", ""
            track.config = load.order.config
            if before is not None:
                before.runner.close()
            self._on_loaded(version.name, version.version, "ok", seconds)
            log.info("%s is ready after %.2f s", what, seconds)
        self._registry.changed(model)
        await self._tell_waiting()

    async def _tell_waiting(self) -> None:
        async with self._changes:
            self._changes.notify_all()

    def _is_loading(self, name: str) -> bool:
        model = self._registry.get(name)
        tracks = [self._tracks.get((name, v)) for v in (model.versions if model else ())]
        return any(track is not None and track.load is not None for track in tracks)

    def _path(self, layout: ModelLayout, item: VersionLayout) -> pathlib.Path | None:
        root = self._options.root
        if root is None or not item.file:
            return None
        return root if root.is_file() else root / layout.folder / item.folder / item.file

    def _fail_all(self, layout: ModelLayout, message: str) -> None:
        """Mark all versions of the model as failed; a version that serves keeps serving."""
        model = self._registry.model(layout.name)
        if layout.versions:
            self._keep_only(model, layout.versions)
        for name in (
            [item.version for item in layout.versions] or list(model.versions) or [UNVERSIONED]
        ):
            version = model.versions.setdefault(name, Version(model.name, name))
            if model.name in self._unloaded_by_request:
                self._retire(version)
                continue
            track = self._tracks.setdefault((model.name, name), _Track())
            track.load = track.glimpsed = None
            version.fail(message)
            if version.loaded is None:
                track.tried = None
        if not any(version.loaded for version in model.versions.values()):
            model.default_version, model.is_default = None, False
        self._registry.renew(model)

    def _keep_only(self, model: Model, items: Sequence[VersionLayout]) -> None:
        names = {item.version for item in items}
        for gone in [name for name in model.versions if name not in names]:
            self._retire(model.versions.pop(gone))

    def _forget(self, name: str) -> None:
        for version in self._registry.model(name).versions.values():
            self._retire(version)
        self._applied.pop(name, None)
        self._registry.remove(name)

    def _retire(self, version: Version) -> None:
        track = self._tracks.pop((version.name, version.version), None)
        if track is not None:
            track.load = None
        version.state = "UNLOADED"
        version.message = ""
        loaded, version.loaded = version.loaded, None
        if loaded is not None:
            loaded.runner.close()

    def _log_skipped(self, found: Listing) -> None:
        """Log the entries that are not models, and warn if there is no model at all."""
        root = self._options.root
        said = Note() if root is None else note(str(root), found)
        self._registry.problem = said.problem
        self._log_once(said.level, said.line)

    def _log_once(self, level: int, message: str) -> None:
        """Log the message unless it was the last one: polling finds the same problem each time."""
        if message and self._logged != message:
            log.log(level, "%s", message)
        self._logged = message


def _config(root: pathlib.Path, layout: ModelLayout) -> ModelConfig | str:
    """The model's configuration, or the problem of it; never raises."""
    if layout.problem:
        return layout.problem
    if not layout.has_config:
        return model_config.NO_CONFIG
    try:
        path = root / layout.folder / CONFIG_FILE
        return model_config.parse(listing.read_file(path, yaml_text.LIMIT_BYTES))
    except InvalidConfig as fault:
        return fault.message
    except OSError as error:
        return f"model.yaml cannot be read: {error.strerror}"
    except Exception as error:
        # an unexpected error of the YAML or schema library
        log.exception("model '%s': model.yaml cannot be read", layout.name)
        return f"model.yaml cannot be read: {sentence_of(error)}"
