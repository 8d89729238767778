"""The models and the state of each of their versions.

    loader -> Registry (add, ready, failed, remove); dataplane -> Registry (find, statuses)

It changes only in the event loop, so readers need no lock. A request needs two dict lookups.
"""

import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Final, Literal

import msgspec

from moorage_runtime.execution.runner import Runner
from moorage_runtime.repository.contents.layout import version_key
from moorage_runtime.values.errors import (
    ModelNotFound,
    ModelNotReady,
    RepositoryUnread,
    VersionNotFound,
)
from moorage_runtime.values.inference import ModelMetadata, ModelStatus
from moorage_runtime.values.validation import RequestRules, rules_of

State = Literal["LOADING", "READY", "FAILED", "UNLOADED"]
_MANY: Final = 20
_MESSAGE_LIMIT: Final = 4000

# When the server is ready (``--ready-when``).
ReadyWhen = Literal["any", "all", "listed"]


class Loaded:
    """The parts of a version in state READY: its metadata, rules and runner."""

    __slots__ = ("metadata", "rules", "runner")

    def __init__(self, metadata: ModelMetadata, runner: Runner) -> None:
        self.metadata = metadata
        self.rules: RequestRules = rules_of(metadata)
        self.runner = runner


class Version:
    """One version of a model.

    Attributes:
        name: The model's name.
        version: The version's name.
        state: As in ModelStatus.
        message: Why the version, or its replacement, cannot be loaded; "" otherwise.
        activity: What the current load is doing; "" if that is unknown.
        loaded: Set while the version can answer.
    """

    __slots__ = ("activity", "loaded", "message", "name", "state", "version")

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version
        self.state: State = "LOADING"
        self.message = ""
        self.activity = ""
        self.loaded: Loaded | None = None

    def begin(self) -> None:
        """Record the start of a load; a version that serves keeps serving."""
        self.activity = ""
        if self.loaded is None:
            self.state = "LOADING"
            self.message = ""

    def fail(self, message: str) -> None:
        """Record a failed load; a version that serves keeps serving."""
        # a library's message may contain anything, and clients receive it as JSON
        self.message = message[:_MESSAGE_LIMIT].encode(errors="replace").decode()
        if self.loaded is None:
            self.state = "FAILED"

    def status(self) -> ModelStatus:
        """The state as a value; a model whose process restarts is loading."""
        if self.loaded is not None and (problem := self.loaded.runner.problem()):
            return ModelStatus(self.name, self.version, "LOADING", problem)
        message = self.activity if self.state == "LOADING" else self.message
        return ModelStatus(self.name, self.version, self.state, message)


class Model:
    """One model: its versions, ascending, and its default version."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.default_version: str | None = None
        self.is_default = False
        self.versions: dict[str, Version] = {}
        self.chosen: Version | None = None
        self.has_been_ready = False

    def choose(self) -> None:
        """Choose the version for requests without one (C-019).

        The configured version, otherwise the highest that is ready: if a new version fails to
        load, the previous one keeps answering.
        """
        ordered = sorted(self.versions, key=version_key)
        self.versions = {version: self.versions[version] for version in ordered}
        wanted = [v for v in self.versions.values() if v.state != "UNLOADED"]
        ready = [v for v in wanted if v.loaded is not None]
        configured = self.versions.get(self.default_version or "")
        if configured is not None:
            self.chosen = configured
        else:
            self.chosen = next(reversed(ready or wanted or list(self.versions.values())), None)
        self.has_been_ready = self.has_been_ready or self.is_complete

    @property
    def is_wanted(self) -> bool:
        """At least one version should be served."""
        return any(version.state != "UNLOADED" for version in self.versions.values())

    @property
    def can_answer(self) -> bool:
        """A request without a version gets a response."""
        loaded = self.chosen.loaded if self.chosen is not None else None
        return loaded is not None and not loaded.runner.problem()

    @property
    def is_complete(self) -> bool:
        """Every version that should be served can answer."""
        wanted = [v for v in self.versions.values() if v.state != "UNLOADED"]
        return bool(wanted) and all(v.loaded is not None for v in wanted)

    @property
    def is_ready(self) -> bool:
        """Complete once, and able to answer since then."""
        if self.has_been_ready:
            return self.can_answer
        return self.is_complete


class Registry:
    """All models.

    Args:
        ready_when: Which models must be able to answer before the server is ready.
        listed: Names of the models for "listed".

    Attributes:
        is_scanned: The repository has been read; before that, the server is not ready.
        problem: Why the repository contains no models, "" if it contains any.
    """

    def __init__(self, ready_when: ReadyWhen = "any", listed: Collection[str] = ()) -> None:
        self.is_scanned = False
        self.problem = ""
        self._ready_when = ready_when
        self._listed = tuple(listed)
        self._has_settled = False
        self._models: dict[str, Model] = {}
        self._watchers: list[Callable[[], None]] = []
        self._labels: dict[str, tuple[str, str]] = {}  # built on first use

    def watch(self, callback: Callable[[], None]) -> None:
        """Register a callback for every change of state."""
        self._watchers.append(callback)

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names, sorted."""
        return tuple(sorted(self._models))

    def model(self, name: str) -> Model:
        """The model with this name, which is added if it is new."""
        self._labels.clear()
        return self._models.setdefault(name, Model(name))

    def get(self, name: str) -> Model | None:
        """The model with this name, or None."""
        return self._models.get(name)

    def remove(self, name: str) -> None:
        """Remove a model."""
        self._labels.clear()
        self._models.pop(name, None)

    def renew(self, model: Model) -> None:
        """Apply a change of a model's versions without notifying the watchers."""
        self._labels.clear()
        _renew_metadata(model)
        model.choose()

    def changed(self, model: Model | None = None) -> None:
        """Apply a change of a model's versions and notify the watchers."""
        self._labels.clear()
        if model is not None:
            self.renew(model)
        self.has_settled()  # evaluated on every change, because it is remembered
        for callback in self._watchers:
            callback()

    def is_ready(self) -> bool:
        """The models of the policy can answer, or there are no models."""
        if not self.is_scanned:
            return False
        if self._ready_when == "listed":
            listed = [self._models.get(name) for name in self._listed]
            return all(model is not None and model.can_answer for model in listed)
        wanted = [model for model in self._models.values() if model.is_wanted]
        if self._ready_when == "all":
            return all(model.is_ready for model in wanted)
        if not self.has_settled():
            return False
        return not wanted or any(model.can_answer for model in wanted)

    def has_settled(self) -> bool:
        """The first load of every model found at startup has ended, successfully or not."""
        if not self._has_settled:
            versions = (v for model in self._models.values() for v in model.versions.values())
            self._has_settled = self.is_scanned and all(v.state != "LOADING" for v in versions)
        return self._has_settled

    def check_scanned(self) -> None:
        """Call this before reporting a name as unknown.

        Raises:
            RepositoryUnread: The repository has not been read yet.
        """
        if not self.is_scanned:
            raise RepositoryUnread(
                "this server has not read its model repository yet: try again later"
            )

    def find(self, name: str, version: str) -> Version:
        """The version that a request addresses; "" is the model's default.

        Raises:
            ModelNotFound: The model does not exist.
            VersionNotFound: The model has no such version.
            RepositoryUnread: As ``check_scanned``.
        """
        model = self._models.get(name)
        if model is None:
            self.check_scanned()
            raise ModelNotFound(self._unknown(name))
        found = model.versions.get(version) if version else model.chosen
        if found is None:
            self.check_scanned()
            raise VersionNotFound(
                f"model '{name}' has no version '{version}': must be one of "
                f"{_listed(model.versions)}"
            )
        return found

    def loaded(self, name: str, version: str) -> Loaded:
        """The loaded version that a request addresses.

        Raises:
            ModelNotFound, VersionNotFound, RepositoryUnread: As ``find``.
            ModelNotReady: It is loading, failed or unloaded.
        """
        model = self._models.get(name)
        if model is not None:
            found = model.versions.get(version) if version else model.chosen
            if found is not None and found.loaded is not None:
                return found.loaded
        raise not_ready(self.find(name, version))

    def chosen(self, name: str) -> Loaded | None:
        """The loaded default version of a model, or None."""
        model = self._models.get(name)
        return model.chosen.loaded if model is not None and model.chosen is not None else None

    def statuses(self) -> tuple[ModelStatus, ...]:
        """The state of every version of every model, sorted."""
        return tuple(
            version.status()
            for name in self.names
            for version in self._models[name].versions.values()
        )

    def version_states(self) -> Iterator[tuple[str, str, bool, int | None]]:
        """Model, version, whether it can answer, and its current requests (None if it is not
        loaded).
        """
        for name, model in self._models.items():
            for version in model.versions.values():
                loaded = version.loaded
                active = None if loaded is None else loaded.runner.active()
                yield name, version.version, version.status().state == "READY", active

    def labelled(self, label: str) -> tuple[str, str] | None:
        """Model and version for "name-version" or "name", or None.

        The version for a name alone is "", the model's default. A name may contain "-" itself, so
        the whole label is compared.
        """
        if not self._labels:
            self._labels = {name: (name, "") for name in self._models}
            # If several match, "name-version" takes precedence, then the first in order.
            for name in reversed(self.names):
                for version in reversed(self._models[name].versions):
                    self._labels[f"{name}-{version}"] = (name, version)
        return self._labels.get(label)

    def default(self) -> str | None:
        """The model that is configured as the default, otherwise the only model.

        Before the whole repository has been read, the only model is not known.
        """
        if not self.is_scanned:
            return None
        chosen = [name for name in self.names if self._models[name].is_default]
        if chosen:
            return chosen[0]
        return next(iter(self._models)) if len(self._models) == 1 else None

    def _unknown(self, name: str) -> str:
        return f"unknown model '{name}': must be one of {_listed(self.names)}"


def not_ready(version: Version) -> ModelNotReady:
    """Why a known version cannot answer."""
    what = f"model '{version.name}' version '{version.version}'"
    match version.state:
        case "FAILED":
            return ModelNotReady(f"{what} failed to load: {version.message}")
        case "UNLOADED":
            return ModelNotReady(f"{what} is unloaded")
        case _:
            doing = f": {version.activity}" if version.activity else ""
            return ModelNotReady(f"{what} is loading{doing}")


def _renew_metadata(model: Model) -> None:
    """Update the list of available versions in the metadata of each version."""
    able = tuple(
        version
        for version in sorted(model.versions, key=version_key)
        if model.versions[version].loaded is not None
    )
    for version in model.versions.values():
        loaded = version.loaded
        if loaded is not None and loaded.metadata.versions != able:
            renewed = msgspec.structs.replace(loaded.metadata, versions=able)
            version.loaded = Loaded(renewed, loaded.runner)


def _listed(names: Collection[str]) -> str:
    quoted = [f"'{name}'" for name in itertools.islice(names, _MANY)]
    more = ", …" if len(names) > _MANY else ""
    return ", ".join(quoted) + more if quoted else "none"
