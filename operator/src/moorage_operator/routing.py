"""Which Services the route sends requests to, and whether its Gateways take it; pure.

    Arrangement, Split --> make_backends --> resources.route --> HTTPRoute
    HTTPRoute's status --> route_accepted --> condition RouteAccepted --> canary

Each release has a Service of its own as long as there is a route. So shares change in one object,
the route, and no Service that a Gateway sends requests to ever changes whom it selects.

Source: Gateway API v1, RouteParentStatus: Accepted, ResolvedRefs and their observedGeneration.
"""

from collections.abc import Iterable, Iterator

from . import names
from .api.v1alpha1 import InferenceModel, ParentRef
from .canary import Split
from .conditions import Condition, ConditionType, Finding, Reason
from .releases import Arrangement
from .resources.route import ROUTE, Backend
from .state import Observed
from .watched import RouteObserved, RouteParent

__all__ = ["has_route", "make_backends", "route_accepted"]

# What a Gateway has to say of a route before requests can be counted on.
WANTED = ("Accepted", "ResolvedRefs")


def has_route(model: InferenceModel, observed: Observed) -> bool:
    """Whether the spec asks for a route and the cluster has the kind."""
    return bool(model.rollout.canary.parent_refs) and ROUTE in observed.available_kinds


def make_backends(arrangement: Arrangement, split: Split | None) -> tuple[Backend, ...]:
    """The Services with their shares: that of what serves, and that of a canary."""
    main = arrangement.main
    weight = split.weight if split else 0
    stable = _stable(arrangement, 100 - weight)
    if not weight:
        return (stable,)
    ports = main.model.runtime.ports
    return stable, Backend(names.service_of(main.model.name, main.revision), ports, weight)


def _stable(arrangement: Arrangement, weight: int) -> Backend:
    """The Service of the selected release, or the model's where that selects more than one."""
    name = arrangement.main.model.name
    for release in arrangement.releases:
        if release.revision == arrangement.selected:
            service = names.service_of(name, release.revision)
            return Backend(service, release.model.runtime.ports, weight)
    return Backend(names.service(name), arrangement.front.runtime.ports, weight)


def route_accepted(
    model: InferenceModel, observed: Observed, applied_hashes: frozenset[str]
) -> Condition | None:
    """The condition; None where the spec asks for no route.

    Args:
        model: The spec.
        observed: The route with what its Gateways say of it.
        applied_hashes: Those of the planned objects: an older route's verdict is none.
    """
    if not model.rollout.canary.parent_refs or model.problems:
        return None
    status, finding = _decided(model, observed, applied_hashes)
    return Condition(ConditionType.ROUTE_ACCEPTED, status=status, finding=finding)


def _decided(
    model: InferenceModel, observed: Observed, applied_hashes: frozenset[str]
) -> tuple[bool | None, Finding]:
    if ROUTE not in observed.available_kinds:
        sentence = (
            "rollout.canary needs the Gateway API, and this cluster does not serve its HTTPRoute "
            "(gateway.networking.k8s.io/v1) to the operator: install the Gateway API and a gateway"
        )
        return False, Finding(Reason.GATEWAY_API_MISSING, sentence)
    route = observed.children.get((ROUTE, names.route(model.name)))
    parents = model.rollout.canary.parent_refs
    if not isinstance(route, RouteObserved) or route.applied_hash not in applied_hashes:
        return None, Finding(Reason.AWAITING_GATEWAY, "the HTTPRoute is not written yet")
    verdicts = [_verdict(parent, model.namespace, route) for parent in parents]
    for reason in (Reason.GATEWAY_REFUSED, Reason.AWAITING_GATEWAY):
        for finding in verdicts:
            if finding.reason is reason:
                return (False if reason is Reason.GATEWAY_REFUSED else None), finding
    return True, verdicts[0]


def _verdict(parent: ParentRef, namespace: str, route: RouteObserved) -> Finding:
    """What the controllers of one Gateway say; one that takes the route is enough."""
    space = parent.namespace or namespace
    where = f"Gateway {space}/{parent.name}"
    where += f", listener {parent.section_name}" if parent.section_name else ""
    told = [
        each
        for each in route.parents
        if (each.name, each.namespace, each.section_name)
        == (parent.name, space, parent.section_name)
        and each.observed_generation >= route.generation
    ]
    if any(_takes(each) for each in told):
        return Finding(Reason.GATEWAY_ACCEPTED, f"{where} takes the route")
    refusal = next(_refusals(told), "")
    if refusal:
        return Finding(Reason.GATEWAY_REFUSED, f"{where} does not take the route: {refusal}")
    return Finding(Reason.AWAITING_GATEWAY, f"{where} has not said whether it takes the route")


def _takes(parent: RouteParent) -> bool:
    told = {each.type: each.status for each in parent.conditions}
    return all(told.get(type_) is True for type_ in WANTED)


def _refusals(told: Iterable[RouteParent]) -> Iterator[str]:
    for parent in told:
        for condition in parent.conditions:
            if condition.type in WANTED and condition.status is False:
                yield f"{condition.type}: {condition.reason}: {condition.message}"
