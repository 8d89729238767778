"""Finds which Service a model has while its spec plans none; pure.

    Releases, Service --> standing_service --> Standing --> plan, behind_service

A refused spec may be wrong in any field, so nothing is derived from it. The Service that was
applied last can still be repaired: it was built from a revision whose record is kept, and its hash
shows which one. An edit by hand leaves the hash.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.resources.owned import applied_hash
from moorage_operator.resources.service import make_service
from moorage_operator.values.objects import DeploymentObserved
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import Revisions

from .releases import Arrangement, Release

__all__ = ["Standing", "standing_service"]


@dataclass(frozen=True, slots=True)
class Standing:
    """The Service, and the revision that it selects; "" for all pods of the model."""

    selected: str
    service: dict[str, Any]


def standing_service(
    model: InferenceModel,
    observed: Observed,
    revisions: Revisions,
    releases: Sequence[Release],
) -> Standing | None:
    """Return the Service that was applied last, or the one to create if it was deleted.

    Args:
        model: The resource; only its name is used.
        observed: The children.
        revisions: The recorded revisions.
        releases: The releases that it can have been built from.

    Returns:
        None if it was built from none of them.
    """
    service = observed.children.get(("Service", names.service(model.name)))
    if service is None:
        return _again(observed, revisions, releases)
    applied = service.applied_hash
    return next(
        (each for each in _possible(releases) if applied_hash(each.service) == applied), None
    )


def _possible(releases: Sequence[Release]) -> Iterator[Standing]:
    """Return every Service that these releases can have."""
    for front in releases:
        for selected in ("", *(each.revision for each in releases)):
            for by_name in (False, True):
                service = make_service(front.model, selected, by_name=by_name)
                yield Standing(selected, service)


def _again(
    observed: Observed, revisions: Revisions, releases: Sequence[Release]
) -> Standing | None:
    """Return the Service to create instead of one that was deleted.

    With several Deployments, it selects the revision that served last, because the pods of the
    others may not serve yet. Without a Deployment, there is nothing to select.
    """
    found = {each.revision: each for each in releases}
    good = found.get(revisions.last_good)
    main = found.get(revisions.current) or good
    places = [each for each in observed.children.values() if isinstance(each, DeploymentObserved)]
    if main is None or not places:
        return None
    is_apart = len(places) > 1 and any(each.revision == revisions.last_good for each in places)
    arrangement = Arrangement(main, good)
    if good and is_apart:
        arrangement = Arrangement(main, sides=(good,), selected=good.revision)
    service = make_service(
        arrangement.front, arrangement.selected, by_name=arrangement.has_named_ports
    )
    return Standing(arrangement.selected, service)
