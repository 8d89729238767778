"""The models that the server knows, with the state of every version: the one shared truth.

    loader -> Registry (add, ready, failed, remove) ; dataplane -> Registry (find, statuses)

Changed in the event loop only, so that readers need no lock. A request looks up two dicts.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

import msgspec

from moorage_runtime.errors import ModelNotFound, ModelNotReady, RepositoryUnread, VersionNotFound
from moorage_runtime.execution import Runner
from moorage_runtime.inference import ModelMetadata, ModelStatus
from moorage_runtime.repository.layout import version_key
from moorage_runtime.validation import RequestRules, rules_of

State = Literal["LOADING", "READY", "FAILED", "UNLOADED"]
_MANY: Final = 20


class Loaded:
    """What a version in state READY has: its metadata, its rules and its runner."""

    __slots__ = ("metadata", "rules", "runner")

    def __init__(self, metadata: ModelMetadata, runner: Runner) -> None:
        self.metadata = metadata
        self.rules: RequestRules = rules_of(metadata)
        self.runner = runner


class Version:
    """One version of a model: its state, why, and what is loaded.

    Attributes:
        name: The model's name.
        version: The version's name.
        state: As in ModelStatus.
        message: Why it failed, "" otherwise.
        fingerprint: Of the files that it was loaded from, to see when they change.
        loaded: Set while the version can answer.
    """

    __slots__ = ("fingerprint", "loaded", "message", "name", "state", "version")

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version
        self.state: State = "LOADING"
        self.message = ""
        self.fingerprint = ""
        self.loaded: Loaded | None = None

    def status(self) -> ModelStatus:
        """The state as a value."""
        return ModelStatus(self.name, self.version, self.state, self.message)


class Model:
    """One model: its versions, ascending, and which of them answers by default."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.default_version: str | None = None
        self.is_default = False
        self.versions: dict[str, Version] = {}
        self.chosen: Version | None = None
        self.has_been_ready = False

    def choose(self) -> None:
        """Choose the version for requests that name none (C-019).

        The configured one, else the highest that is ready: a new version that fails to load
        leaves the one before it in place.
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
    def is_complete(self) -> bool:
        """Every version that shall be served can answer."""
        wanted = [v for v in self.versions.values() if v.state != "UNLOADED"]
        return bool(wanted) and all(v.loaded is not None for v in wanted)

    @property
    def is_ready(self) -> bool:
        """Complete once, and able to answer since."""
        if self.has_been_ready:
            return self.chosen is not None and self.chosen.loaded is not None
        return self.is_complete


class Registry:
    """All models.

    Attributes:
        is_scanned: The repository has been read; before that nothing is known to be ready.
    """

    def __init__(self) -> None:
        self.is_scanned = False
        self._models: dict[str, Model] = {}
        self._watchers: list[Callable[[], None]] = []
        self._labels: dict[str, tuple[str, str]] = {}  # empty until it is asked for

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back after every change of state."""
        self._watchers.append(callback)

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names, sorted."""
        return tuple(sorted(self._models))

    def model(self, name: str) -> Model:
        """The model of this name, added when it is new."""
        self._labels.clear()
        return self._models.setdefault(name, Model(name))

    def remove(self, name: str) -> None:
        """Forget a model."""
        self._labels.clear()
        self._models.pop(name, None)

    def changed(self, model: Model | None = None) -> None:
        """Take over a change of a model's versions and tell the watchers."""
        self._labels.clear()
        if model is not None:
            _renew_metadata(model)
            model.choose()
        for callback in self._watchers:
            callback()

    def is_ready(self) -> bool:
        """Every model can answer; so can a server without models."""
        return self.is_scanned and all(
            model.is_ready
            for model in self._models.values()
            if any(v.state != "UNLOADED" for v in model.versions.values())
        )

    def check_scanned(self) -> None:
        """To be asked before a name is called unknown.

        Raises:
            RepositoryUnread: What the repository holds is not known yet.
        """
        if not self.is_scanned:
            raise RepositoryUnread(
                "this server has not read its model repository yet, so it cannot tell its models"
            )

    def find(self, name: str, version: str) -> Version:
        """The version that a request means; "" is the model's default.

        Raises:
            ModelNotFound: There is no such model.
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
                f"model '{name}' has no version '{version}', it has {_listed(model.versions)}"
            )
        return found

    def loaded(self, name: str, version: str) -> Loaded:
        """What answers for that version.

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
        """What answers for a model by default, None when nothing does."""
        model = self._models.get(name)
        return model.chosen.loaded if model is not None and model.chosen is not None else None

    def statuses(self) -> tuple[ModelStatus, ...]:
        """The state of every version of every model, sorted."""
        return tuple(
            version.status()
            for name in self.names
            for version in self._models[name].versions.values()
        )

    def serving(self) -> Iterator[tuple[str, str, Loaded]]:
        """Model, version and what answers, of every version that can."""
        for name, model in self._models.items():
            for version in model.versions.values():
                if version.loaded is not None:
                    yield name, version.version, version.loaded

    def labelled(self, label: str) -> tuple[str, str] | None:
        """Model and version that "name-version" or "name" stands for; None for neither.

        The version of a name alone is "", the model's default. A name may hold "-" itself, so
        the whole label is compared and never split.
        """
        if not self._labels:
            self._labels = {name: (name, "") for name in self._models}
            # of two that look the same, "name-version" goes first, and the first in order
            for name in reversed(self.names):
                for version in reversed(self._models[name].versions):
                    self._labels[f"{name}-{version}"] = (name, version)
        return self._labels.get(label)

    def default(self) -> str | None:
        """The model that its configuration makes the default, or the only one there is.

        The first one found is not the only one until all of the repository has been read.
        """
        if not self.is_scanned:
            return None
        chosen = [name for name in self.names if self._models[name].is_default]
        if chosen:
            return chosen[0]
        return next(iter(self._models)) if len(self._models) == 1 else None

    def _unknown(self, name: str) -> str:
        return f"unknown model '{name}', this server has {_listed(self.names)}"


def not_ready(version: Version) -> ModelNotReady:
    """Why a known version cannot answer."""
    what = f"model '{version.name}' version '{version.version}'"
    match version.state:
        case "FAILED":
            return ModelNotReady(f"{what} failed to load: {version.message}")
        case "UNLOADED":
            return ModelNotReady(f"{what} is unloaded")
        case _:
            return ModelNotReady(f"{what} is loading")


def _renew_metadata(model: Model) -> None:
    """Each version's metadata lists all versions that may be asked for."""
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


def _listed(names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in itertools.islice(names, _MANY)]
    return ", ".join(quoted) if quoted else "none"
