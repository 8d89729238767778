"""Loads one version of a model from its files.

loader -> LoadOrder -> Loading.load -> Backend.load in a thread -> Loaded -> registry
"""

import asyncio
import contextlib
import logging
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from moorage_runtime.backends.base import Backend, LoadedModel, ModelSource, Supervised
from moorage_runtime.execution.runner import Runner
from moorage_runtime.repository.contents import choice
from moorage_runtime.repository.contents import config as model_config
from moorage_runtime.repository.contents.config import ModelConfig
from moorage_runtime.repository.contents.layout import Stamp, VersionLayout
from moorage_runtime.repository.contents.lfs_pointer import is_lfs_pointer
from moorage_runtime.repository.daemon_thread import in_daemon_thread
from moorage_runtime.repository.registry import Loaded, Version
from moorage_runtime.values.budget import ByteBudget
from moorage_runtime.values.errors import InvalidConfig, RuntimeFault

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for the requests of a version.

    Attributes:
        threads: Processor cores that this process may use.
        waiting: Maximum number of waiting requests.
        timeout_seconds: Maximum time of a request, unless its model sets one; 0 is no limit.
        budget: Maximum memory of all current requests.
    """

    threads: int
    waiting: int
    timeout_seconds: float
    budget: ByteBudget


class LoadOrder(msgspec.Struct, frozen=True):
    """What to load, and the state of the disk.

    Attributes:
        item: The version's place in the repository.
        path: The model file, or None without one.
        config: The model's configuration.
        surroundings: Stamp of the whole model, because any of its files may cause a failure.
    """

    item: VersionLayout
    path: pathlib.Path | None
    config: ModelConfig
    surroundings: Stamp

    def loads_as(self, other: "LoadOrder") -> bool:
        """Whether both orders load the same model."""
        return (self.item, self.path) == (other.item, other.path) and choice.for_loading(
            self.config
        ) == choice.for_loading(other.config)

    def may_load_where_failed(self, other: "LoadOrder") -> bool:
        """Whether a difference from the other order may remove its failure."""
        return self.surroundings != other.surroundings or not self.loads_as(other)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., None]) -> Callable[..., None]:
    """Return a function for other threads that has `call` called in the event loop."""

    def schedule(*arguments: str) -> None:
        # a closed loop has no clients
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(call, *arguments)

    return schedule


def described(version: Version, runner: Runner, config: ModelConfig) -> Loaded:
    """The loaded version with the metadata of a new configuration.

    Raises:
        InvalidConfig: The configuration does not fit the model.
    """
    return Loaded(choice.metadata(version.name, version.version, runner.model, config), runner)


def _load(backend: Backend, source: ModelSource) -> LoadedModel:
    """Load the model, and say what its file is if that explains a failure."""
    try:
        return backend.load(source)
    except RuntimeFault as fault:
        if is_lfs_pointer(source.path):
            raise InvalidConfig(
                f"{source.path.name} is a pointer of Git LFS, and not the model itself: run git "
                "lfs pull in the clone that it comes from"
            ) from fault
        if reason := _why_unreadable(source.path):
            raise InvalidConfig(
                f"{source.path.name} cannot be read: {reason}: the server runs as user "
                f"{os.geteuid()} and group {os.getegid()}"
            ) from fault
        raise


def _why_unreadable(path: pathlib.Path) -> str:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.strerror or str(error)
    return ""


class Loading:
    """Loads the versions of models.

    Args:
        backends: Format name to backend.
        limits: Limits for the requests of each version.
        on_run: Called for each run in a thread; see ``Loader``.
        changed: Called in the event loop when the process of a model ends or has restarted.
        allow_pickle: Whether model files that are pickles are loaded.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        limits: Limits,
        on_run: Callable[[str, str, int, Sequence[float]], None],
        changed: Callable[[], None],
        *,
        allow_pickle: bool = False,
    ) -> None:
        self._backends = backends
        self._limits = limits
        self._on_run = on_run
        self._changed = changed
        self._allow_pickle = allow_pickle

    async def load(self, name: str, order: LoadOrder, report: Callable[[str], None]) -> Loaded:
        """The loaded version.

        Args:
            name: The model's name.
            order: What to load.
            report: Called in the event loop with what the load is doing, and with "" when that is
                done.

        Raises:
            RuntimeFault: The load failed; the message says why.
        """
        item, path, config = order.item, order.path, order.config
        if path is None:
            raise InvalidConfig(item.problem)
        backend = self._backends.get(config.backend or item.format)
        if backend is None:
            raise InvalidConfig(
                f"{path.name} needs backend '{config.backend or item.format}', which this server "
                f"does not have: must be one of {', '.join(self._backends)}"
            )
        source = msgspec.structs.replace(
            self._source(name, item.version, path, config),
            report=self._reported(report, asyncio.get_running_loop()),
        )
        loaded = await in_daemon_thread(lambda: _load(backend, source), f"load-{name}")
        try:
            return self._finish(name, item.version, loaded, config)
        except BaseException:
            loaded.close()
            raise

    def _finish(self, name: str, version: str, loaded: LoadedModel, config: ModelConfig) -> Loaded:
        batching = model_config.batching_policy(
            config, loaded.inputs, loaded.outputs, merge_obstacle=loaded.merge_obstacle
        )
        if isinstance(batching, str):
            log.info("model '%s' version '%s' runs without batching: %s", name, version, batching)
        metadata = choice.metadata(name, version, loaded, config)
        limits, own_timeout = self._limits, config.timeout_seconds
        runner = Runner(
            loaded,
            name,
            threads=limits.threads,
            waiting=limits.waiting,
            batching=None if isinstance(batching, str) else batching,
            observe=partial(self._on_run, name, version),
            timeout_seconds=limits.timeout_seconds if own_timeout is None else own_timeout,
            budget=limits.budget,
        )
        if isinstance(loaded, Supervised):
            loaded.watch(_in_loop(asyncio.get_running_loop(), self._changed))
        return Loaded(metadata, runner)

    def _reported(
        self, report: Callable[[str], None], loop: asyncio.AbstractEventLoop
    ) -> Callable[[str], None]:
        def record(activity: str) -> None:
            report(activity)
            self._changed()

        return _in_loop(loop, record)

    def _source(
        self, name: str, version: str, path: pathlib.Path, config: ModelConfig
    ) -> ModelSource:
        options: dict[str, Any] = {
            "parameters": config.parameters,
            "python_class": config.python_class,
            "threads": config.onnx.threads,
            "inline": config.onnx.inline,
            "tf32": config.onnx.tf32,
            "python_isolation": config.python.isolation,
            "python_requirements": config.python.requirements,
            "python_timeout_seconds": config.python.timeout_seconds,
            "openvino_threads": config.openvino.threads,
            "torchscript_threads": config.torchscript.threads,
            "text_task": config.text.task,
            "text_max_tokens": config.text.max_tokens,
            "allow_pickle": self._allow_pickle,
        }
        return ModelSource(
            name,
            version,
            path,
            None if config.inputs is None else model_config.specs(config.inputs),
            None if config.outputs is None else model_config.specs(config.outputs),
            options,
            self._limits.threads,
        )
