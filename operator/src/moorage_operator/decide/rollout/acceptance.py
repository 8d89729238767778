"""Decides whether the Gateways or the Ingress controller serve a model's route; pure.

    status of HTTPRoute, GRPCRoute, Ingress --> route_accepted --> condition RouteAccepted
    condition RouteAccepted --> canary, decide.status.external_urls

A status that describes an earlier version of a route does not count, nor does one that the
operator may no longer read. The status of an Ingress has
no version, so its addresses count for the Ingress that the cluster has.

Source: Gateway API v1, RouteParentStatus: Accepted, ResolvedRefs and their observedGeneration;
networking.k8s.io/v1, IngressStatus.
"""

from collections.abc import Collection, Iterable, Iterator

from moorage_operator.api import names
from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.rights import may_not_read
from moorage_operator.api.v1alpha1 import InferenceModel, ParentRef, Strategy
from moorage_operator.resources.ingress import INGRESS
from moorage_operator.resources.route import ROUTE, route_kinds
from moorage_operator.values.objects import (
    ROUTE_CONDITIONS,
    IngressObserved,
    RouteObserved,
    RouteParent,
)
from moorage_operator.values.observed import Observed

from .routing import has_ingress

__all__ = ["route_accepted"]

# The findings that hold a route up, the most important one first.
AGAINST = (
    Reason.GATEWAY_REFUSED,
    Reason.GATEWAY_API_MISSING,
    Reason.READ_FORBIDDEN,
    Reason.AWAITING_GATEWAY,
)
UNKNOWN = {Reason.READ_FORBIDDEN, Reason.AWAITING_GATEWAY}


def route_accepted(
    model: InferenceModel, observed: Observed, applied_hashes: Collection[str]
) -> Condition | None:
    """Decide the condition RouteAccepted; None if the spec requests no route.

    Args:
        model: The spec.
        observed: The routes with the conditions that their Gateways report, and the Gateways.
        applied_hashes: The hashes of the planned objects, so that an older route does not count.
    """
    if not model.route.is_given or model.problems:
        return None
    status, finding = _decided(model, observed, applied_hashes)
    return Condition(ConditionType.ROUTE_ACCEPTED, status=status, finding=finding)


def _decided(
    model: InferenceModel, observed: Observed, applied_hashes: Collection[str]
) -> tuple[bool | None, Finding]:
    # An Ingress cannot split requests, so a canary waits for the Gateway API.
    if has_ingress(model, observed) and model.rollout.strategy is not Strategy.CANARY:
        return _of_ingress(model, observed, applied_hashes)
    if ROUTE not in observed.available_kinds and ROUTE not in observed.unreadable_kinds:
        missing = _missing(ROUTE, "spec.route")
        if model.route.ingress is not None:
            missing += "; until then the Ingress carries the requests, which cannot split them"
        return False, Finding(Reason.GATEWAY_API_MISSING, missing)
    findings = [
        each
        for kind in route_kinds(model)
        for each in _of_route(kind, model, observed, applied_hashes)
    ]
    for reason in AGAINST:
        for finding in findings:
            if finding.reason is reason:
                return (None if reason in UNKNOWN else False), finding
    return True, Finding(findings[0].reason, findings[0].message + _unread(model, observed))


def _missing(kind: str, field: str) -> str:
    return (
        f"{field} requires the Gateway API, but the operator finds no {kind} "
        "(gateway.networking.k8s.io/v1) in this cluster: install the Gateway API and a gateway"
    )


def _of_route(
    kind: str, model: InferenceModel, observed: Observed, applied_hashes: Collection[str]
) -> Iterator[Finding]:
    """Return the finding of each Gateway about one route; only the kind of gRPC may be missing."""
    if kind in observed.unreadable_kinds:
        yield Finding(Reason.READ_FORBIDDEN, may_not_read(kind, model.namespace))
        return
    if kind not in observed.available_kinds:
        yield Finding(Reason.GATEWAY_API_MISSING, _missing(kind, "spec.route.grpc"))
        return
    route = observed.children.get((kind, names.route(model.name)))
    if not isinstance(route, RouteObserved) or route.applied_hash not in applied_hashes:
        yield Finding(Reason.AWAITING_GATEWAY, f"the {kind} is not written yet")
        return
    for parent in model.route.parent_refs:
        yield _verdict(parent, model, observed, kind, route)


def _verdict(
    parent: ParentRef, model: InferenceModel, observed: Observed, kind: str, route: RouteObserved
) -> Finding:
    """Return whether one Gateway accepts a route; one accepting controller is enough."""
    space = parent.namespace or model.namespace
    where = f"Gateway {space}/{parent.name}"
    if observed.gateways.by_key.get((space, parent.name), parent) is None:
        return Finding(Reason.AWAITING_GATEWAY, f"{where} does not exist: create it")
    where += f", listener {parent.section_name}" if parent.section_name else ""
    parents = [
        each
        for each in route.parents
        if (each.name, each.namespace, each.section_name)
        == (parent.name, space, parent.section_name)
        and each.observed_generation >= route.generation
    ]
    subject = "the route" if kind == ROUTE else f"the {kind}"
    if any(_accepts(each) for each in parents):
        return Finding(Reason.GATEWAY_ACCEPTED, f"{where} accepts {subject}")
    refusal = next(_refusals(parents), "")
    if refusal:
        return Finding(Reason.GATEWAY_REFUSED, f"{where} does not accept {subject}: {refusal}")
    sentence = f"{where} has not reported whether it accepts {subject}"
    return Finding(Reason.AWAITING_GATEWAY, sentence)


def _accepts(parent: RouteParent) -> bool:
    statuses = {each.type: each.status for each in parent.conditions}
    return all(statuses.get(type_) is True for type_ in ROUTE_CONDITIONS)


def _refusals(parents: Iterable[RouteParent]) -> Iterator[str]:
    for parent in parents:
        for condition in parent.conditions:
            if condition.status is False:
                parts = (condition.type, condition.reason, condition.message)
                yield ": ".join(part for part in parts if part)


def _unread(model: InferenceModel, observed: Observed) -> str:
    """Return which Gateways the operator may not read, as the end of a sentence."""
    found = {
        f"{space}/{each.name}"
        for each in model.route.parent_refs
        if ((space := each.namespace or model.namespace), each.name)
        not in observed.gateways.by_key
    }
    if not found:
        return ""
    return (
        f"; status.url omits Gateway {', '.join(sorted(found))}, which the operator may not read: "
        "grant it list and watch on gateways in that namespace"
    )


def _of_ingress(
    model: InferenceModel, observed: Observed, applied_hashes: Collection[str]
) -> tuple[bool | None, Finding]:
    if INGRESS in observed.unreadable_kinds:
        return None, Finding(Reason.READ_FORBIDDEN, may_not_read(INGRESS, model.namespace))
    ingress = observed.children.get((INGRESS, names.ingress(model.name)))
    if not isinstance(ingress, IngressObserved) or ingress.applied_hash not in applied_hashes:
        return None, Finding(Reason.AWAITING_INGRESS, "the Ingress is not written yet")
    if ingress.points:
        addresses = ", ".join(each.address for each in ingress.points)
        return True, Finding(Reason.INGRESS_READY, f"the Ingress is served at {addresses}")
    spec = model.route.ingress
    of_class = f"class {spec.class_name}" if spec and spec.class_name else "the default class"
    sentence = f"no Ingress controller has reported an address for the Ingress of {of_class}"
    return None, Finding(Reason.AWAITING_INGRESS, sentence)
