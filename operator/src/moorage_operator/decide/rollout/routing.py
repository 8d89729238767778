"""Decides the backends of the route, and whether its Gateways accept it; pure.

    Arrangement, Split --> make_backends --> resources.route --> HTTPRoute
    HTTPRoute's status --> route_accepted --> condition RouteAccepted --> canary

While there is a route, each release has its own Service. So shares change in a single object, the
route, and the selector of a Service behind a Gateway never changes.

Source: Gateway API v1, RouteParentStatus: Accepted, ResolvedRefs and their observedGeneration.
"""

from collections.abc import Collection, Iterable, Iterator

from moorage_operator.api import names
from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.v1alpha1 import InferenceModel, ParentRef
from moorage_operator.resources.route import ROUTE, Backend
from moorage_operator.values.objects import RouteObserved, RouteParent
from moorage_operator.values.observed import Observed

from .canary import Split
from .releases import Arrangement

__all__ = ["has_route", "make_backends", "route_accepted"]

# The conditions that a Gateway must report before it can be relied on.
WANTED = ("Accepted", "ResolvedRefs")


def has_route(model: InferenceModel, observed: Observed) -> bool:
    """Whether the spec requests a route and the cluster supports it."""
    return bool(model.route) and ROUTE in observed.available_kinds


def make_backends(arrangement: Arrangement, split: Split | None) -> tuple[Backend, ...]:
    """Return the Service that serves and the Service of a canary, with their shares."""
    main = arrangement.main
    weight = split.weight if split else 0
    stable = _stable(arrangement, 100 - weight)
    if not weight:
        return (stable,)
    ports = main.model.runtime.ports
    return stable, Backend(names.service_of(main.model.name, main.revision), ports, weight)


def _stable(arrangement: Arrangement, weight: int) -> Backend:
    """Return the Service of the selected release, or the model's if it selects several."""
    name = arrangement.main.model.name
    for release in arrangement.releases:
        if release.revision == arrangement.selected:
            service = names.service_of(name, release.revision)
            return Backend(service, release.model.runtime.ports, weight)
    return Backend(names.service(name), arrangement.front.runtime.ports, weight)


def route_accepted(
    model: InferenceModel, observed: Observed, applied_hashes: Collection[str]
) -> Condition | None:
    """Decide the condition RouteAccepted; None if the spec requests no route.

    Args:
        model: The spec.
        observed: The route with the conditions that its Gateways report.
        applied_hashes: The hashes of the planned objects, so that an older route does not count.
    """
    if not model.route or model.problems:
        return None
    status, finding = _decided(model, observed, applied_hashes)
    return Condition(ConditionType.ROUTE_ACCEPTED, status=status, finding=finding)


def _decided(
    model: InferenceModel, observed: Observed, applied_hashes: Collection[str]
) -> tuple[bool | None, Finding]:
    if ROUTE not in observed.available_kinds:
        sentence = (
            "spec.route requires the Gateway API, but the operator finds no HTTPRoute "
            "(gateway.networking.k8s.io/v1) in this cluster: install the Gateway API and a gateway"
        )
        return False, Finding(Reason.GATEWAY_API_MISSING, sentence)
    route = observed.children.get((ROUTE, names.route(model.name)))
    parents = model.route.parent_refs
    if not isinstance(route, RouteObserved) or route.applied_hash not in applied_hashes:
        return None, Finding(Reason.AWAITING_GATEWAY, "the HTTPRoute is not written yet")
    verdicts = [_verdict(parent, model.namespace, route) for parent in parents]
    for reason in (Reason.GATEWAY_REFUSED, Reason.AWAITING_GATEWAY):
        for finding in verdicts:
            if finding.reason is reason:
                return (False if reason is Reason.GATEWAY_REFUSED else None), finding
    return True, verdicts[0]


def _verdict(parent: ParentRef, namespace: str, route: RouteObserved) -> Finding:
    """Return whether one Gateway accepts the route; one accepting controller is enough."""
    space = parent.namespace or namespace
    where = f"Gateway {space}/{parent.name}"
    where += f", listener {parent.section_name}" if parent.section_name else ""
    parents = [
        each
        for each in route.parents
        if (each.name, each.namespace, each.section_name)
        == (parent.name, space, parent.section_name)
        and each.observed_generation >= route.generation
    ]
    if any(_accepts(each) for each in parents):
        return Finding(Reason.GATEWAY_ACCEPTED, f"{where} accepts the route")
    refusal = next(_refusals(parents), "")
    if refusal:
        return Finding(Reason.GATEWAY_REFUSED, f"{where} does not accept the route: {refusal}")
    sentence = f"{where} has not reported whether it accepts the route"
    return Finding(Reason.AWAITING_GATEWAY, sentence)


def _accepts(parent: RouteParent) -> bool:
    statuses = {each.type: each.status for each in parent.conditions}
    return all(statuses.get(type_) is True for type_ in WANTED)


def _refusals(parents: Iterable[RouteParent]) -> Iterator[str]:
    for parent in parents:
        for condition in parent.conditions:
            if condition.type in WANTED and condition.status is False:
                yield f"{condition.type}: {condition.reason}: {condition.message}"
