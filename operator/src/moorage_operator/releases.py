"""The Deployments of a model: which revision each runs, and which the Service selects; pure.

    Course --> arrange --> Arrangement --> Deployments and Service

Where one Deployment rolls from revision to revision there is no more than that one. With
BlueGreen and Canary each revision has a Deployment of its own, and so have revisions from before
a strategy was changed: what runs is left where it runs, so that a change of the strategy moves no
pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import names
from .api.v1alpha1 import InferenceModel, Strategy
from .revisions import Revisions, read_spec, read_template
from .state import Observed
from .watched import DeploymentObserved

__all__ = ["Arrangement", "Release", "arrange", "is_kept", "kept_seconds"]


@dataclass(frozen=True, slots=True)
class Release:
    """A revision with what it is made from, and the name of the Deployment that is to run it."""

    revision: str
    model: InferenceModel
    template: dict[str, Any]
    deployment: str


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Who runs where.

    Attributes:
        main: What the course runs.
        earlier: The last revision that served, while another is tried: its pods are judged as
            what they are, wherever they run.
        sides: Releases with Deployments of their own beside the main one.
        selected: The revision that the Service selects; empty: every pod of the model.
        history: Revisions that have to be read for this.
        unreadable: Whether some Deployment runs nobody knows what, and has to be left alone.
    """

    main: Release
    earlier: Release | None = None
    sides: tuple[Release, ...] = ()
    selected: str = ""
    history: frozenset[str] = frozenset()
    unreadable: bool = False

    @property
    def releases(self) -> tuple[Release, ...]:
        """Those with Deployments at their revision, the main one first."""
        return (self.main, *self.sides)

    @property
    def routed(self) -> tuple[Release, ...]:
        """Those that a gateway may send requests to: the earlier one too, wherever it runs.

        An edit that leaves BlueGreen or Canary at once lets it run in a Deployment that rolls on.
        """
        found = {each.revision: each for each in (*self.releases, self.earlier) if each}
        return tuple(found.values())

    @property
    def front(self) -> InferenceModel:
        """The model whose ports the Service offers."""
        known = {release.revision: release.model for release in self.releases}
        return known.get(self.selected, self.main.model)


def arrange(
    model: InferenceModel,
    observed: Observed,
    revisions: Revisions,
    main: tuple[str, InferenceModel, dict[str, Any]],
    now: datetime,
) -> Arrangement:
    """Who is to run where.

    Args:
        model: The spec.
        observed: The Deployments and the history.
        revisions: As remembered.
        main: Revision, model and template that the course runs.
        now: The present moment, aware; ends what is kept for a while.
    """
    running = _running(observed)
    revision, good = main[0], revisions.last_good
    release = Release(*main, _place(model, running, revision, good))
    wanted = [each for each in _others(model, revisions, now) if each != revision]
    found = {each: _read(model, observed, each, running.get(each, "")) for each in wanted}
    apart = [
        each for each in wanted if running.get(each, release.deployment) != release.deployment
    ]
    sides = [found[each] for each in apart]
    if model.rollout.strategy is Strategy.RECREATE:
        sides = []  # what served ends first
    selects = good in {"", revision} or good in apart
    stands_apart = model.rollout.strategy.stands_apart
    return Arrangement(
        main=release,
        earlier=found.get(good),
        sides=tuple(each for each in sides if each),
        selected=(good or revision) if selects and stands_apart else "",
        history=frozenset(wanted),
        unreadable=None in sides,
    )


def kept_seconds(model: InferenceModel) -> int:
    """How long a Deployment is kept after another has taken its place."""
    rollout = model.rollout
    if rollout.strategy is Strategy.BLUE_GREEN:
        return rollout.blue_green.keep_seconds
    # A Gateway goes on sending to it until it has seen the route.
    return rollout.canary.keep_seconds if rollout.canary.parent_refs else 0


def is_kept(model: InferenceModel, revisions: Revisions, now: datetime) -> float | None:
    """Seconds for which the retiring revision is kept yet; None where there is none."""
    if revisions.retiring is None:
        return None
    left = float(kept_seconds(model))
    if began := revisions.retiring.time:
        left -= (now - datetime.fromisoformat(began)).total_seconds()
    return left if left > 0 else None


def _others(model: InferenceModel, revisions: Revisions, now: datetime) -> list[str]:
    """Revisions beside the main one that have a use: for the Service, or for a while yet."""
    found = [revisions.last_good] if revisions.last_good else []
    canary = revisions.canary
    if canary and canary.step:
        found.append(canary.revision)  # which may have just been left, with requests on their way
    if revisions.retiring and is_kept(model, revisions, now) is not None:
        found.append(revisions.retiring.revision)
    return list(dict.fromkeys(found))


def _running(observed: Observed) -> dict[str, str]:
    """Names of the Deployments by the revision that each is at."""
    return {
        child.revision: name
        for (kind, name), child in sorted(observed.children.items())
        if kind == "Deployment" and isinstance(child, DeploymentObserved)
    }


def _place(model: InferenceModel, running: Mapping[str, str], revision: str, good: str) -> str:
    """The Deployment for a revision: where it runs already, else by the strategy.

    What serves may have its pods in a Deployment that rolls on from it: then that one goes on.
    """
    if revision in running:
        return running[revision]
    if model.rollout.strategy.stands_apart and good in running:
        return names.deployment_of(model.name, revision)
    return names.deployment(model.name)


def _read(
    model: InferenceModel, observed: Observed, revision: str, deployment: str
) -> Release | None:
    record = observed.history.get(revision)
    then = read_spec(record, model) if record else None
    if record is None or then is None:
        return None
    return Release(revision, then, read_template(record), deployment)
