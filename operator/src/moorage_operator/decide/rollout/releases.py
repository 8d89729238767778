"""Decides which Deployments a model has, and which revision its Service selects; pure.

    Course --> arrange --> Arrangement --> Deployments and Service

With RollingUpdate and Recreate, one Deployment runs all revisions in turn. With BlueGreen and
Canary, each revision has its own Deployment. A change of strategy moves no pod: each revision
stays in the Deployment that runs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import InferenceModel, Strategy
from moorage_operator.resources.service import names_ports
from moorage_operator.values.objects import DeploymentObserved
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import Revisions

from .revision_specs import read_spec, read_template

__all__ = [
    "Arrangement",
    "Release",
    "arrange",
    "is_kept",
    "is_mixed",
    "kept_seconds",
    "read_release",
]


@dataclass(frozen=True, slots=True)
class Release:
    """A revision with its spec and template, and the name of its Deployment."""

    revision: str
    model: InferenceModel
    template: dict[str, Any]
    deployment: str


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The Deployments of all releases.

    Attributes:
        main: The release that the course runs.
        earlier: The last revision that served, while another is rolled out.
        sides: Releases with their own Deployments in addition to the main one.
        selected: The revision that the Service selects; if empty, all pods of the model.
        history: Revisions whose records are needed.
        unreadable: Whether the revision of a Deployment is unknown, so that no child is deleted.
    """

    main: Release
    earlier: Release | None = None
    sides: tuple[Release, ...] = ()
    selected: str = ""
    history: frozenset[str] = frozenset()
    unreadable: bool = False

    @property
    def releases(self) -> tuple[Release, ...]:
        """Releases with their own Deployments, the main one first."""
        return (self.main, *self.sides)

    @property
    def routed(self) -> tuple[Release, ...]:
        """Releases that a gateway may send requests to, including the earlier one.

        After a change to RollingUpdate, the Deployment of the earlier one is being updated.
        """
        found = {each.revision: each for each in (*self.releases, self.earlier) if each}
        return tuple(found.values())

    @property
    def has_named_ports(self) -> bool:
        """Whether all pods can be reached by port name."""
        return all(names_ports(each.template, each.model.runtime.ports) for each in self.routed)

    @property
    def front(self) -> InferenceModel:
        """The model whose ports the Service exposes.

        While pods of two revisions receive requests, this is the earlier one: its clients reach
        both, and an edit of `runtime.ports` takes effect once the new revision serves.
        """
        for release in self.releases:
            if release.revision == self.selected:
                return release.model
        if self.earlier and self.has_named_ports:
            return self.earlier.model
        return self.main.model


def arrange(
    model: InferenceModel,
    observed: Observed,
    revisions: Revisions,
    main: tuple[str, InferenceModel, dict[str, Any]],
    now: datetime,
) -> Arrangement:
    """Decide which Deployment runs which revision.

    Args:
        model: The spec.
        observed: The Deployments and the history.
        revisions: The recorded revisions.
        main: The revision, model and template that the course runs.
        now: The current time, aware.
    """
    running = _running(observed)
    revision, good = main[0], revisions.last_good
    release = Release(*main, _place(model, running, revision, good))
    wanted = [each for each in _others(model, revisions, now) if each != revision]
    places = {each: running.get(each, release.deployment) for each in wanted}
    found = {each: read_release(model, observed, each, at) for each, at in places.items()}
    apart = [each for each, at in places.items() if at != release.deployment]
    sides = [found[each] for each in apart]
    if model.rollout.strategy is Strategy.RECREATE:
        sides = []  # the earlier revision ends first
    selects = good in {"", revision} or good in apart
    is_per_revision = model.rollout.strategy.is_per_revision
    return Arrangement(
        main=release,
        earlier=found.get(good),
        sides=tuple(each for each in sides if each),
        selected=(good or revision) if selects and is_per_revision else "",
        history=frozenset(wanted),
        unreadable=None in sides,
    )


def kept_seconds(model: InferenceModel) -> int:
    """Return how long a Deployment is kept after it was replaced."""
    rollout = model.rollout
    if rollout.strategy is Strategy.BLUE_GREEN:
        return rollout.blue_green.keep_seconds
    # A Gateway keeps sending requests to it until it has seen the new route.
    return rollout.canary.keep_seconds if model.route.parent_refs else 0


def is_kept(model: InferenceModel, revisions: Revisions, now: datetime) -> float | None:
    """Return for how many more seconds the retiring revision is kept; None without one."""
    if revisions.retiring is None:
        return None
    left = float(kept_seconds(model))
    if began := revisions.retiring.time:
        left -= (now - datetime.fromisoformat(began)).total_seconds()
    return left if left > 0 else None


def is_mixed(release: Release, observed: Observed) -> bool:
    """Return whether several ReplicaSets of the release's Deployment have pods."""
    model = release.model.name
    replica_sets = {
        pod.replica_set
        for pod in observed.pods
        if pod.is_active and pod.deployment_of(model) == release.deployment
    }
    return len(replica_sets) > 1


def _others(model: InferenceModel, revisions: Revisions, now: datetime) -> list[str]:
    """Return revisions other than the main one that are still needed."""
    found = [revisions.last_good] if revisions.last_good else []
    canary = revisions.canary
    if canary and canary.step:
        found.append(canary.revision)  # it may still receive requests after it was given up
    if revisions.retiring and is_kept(model, revisions, now) is not None:
        found.append(revisions.retiring.revision)
    return list(dict.fromkeys(found))


def _running(observed: Observed) -> dict[str, str]:
    """Return the names of the Deployments by revision."""
    return {
        child.revision: name
        for (_, name), child in sorted(observed.children.items())
        if isinstance(child, DeploymentObserved)
    }


def _place(model: InferenceModel, running: Mapping[str, str], revision: str, good: str) -> str:
    """Return the Deployment for a revision: the one that runs it, otherwise by the strategy.

    If the serving revision runs in a Deployment that is being updated, that one continues.
    """
    if revision in running:
        return running[revision]
    if model.rollout.strategy.is_per_revision and good in running:
        return names.deployment_of(model.name, revision)
    return names.deployment(model.name)


def read_release(
    model: InferenceModel, observed: Observed, revision: str, deployment: str = ""
) -> Release | None:
    """Read an earlier revision from the history; None if its record is lost."""
    record = observed.history.get(revision)
    then = read_spec(record, model) if record else None
    if record is None or then is None:
        return None
    return Release(revision, then, read_template(record, then), deployment)
