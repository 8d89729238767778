"""The Gateways of the cluster, in memory, in the form that a plan needs.

reflectors --> PlainSink --> GatewayStore --> Observed.gateways

Other facts of a Gateway, such as the number of attached routes, change often and are ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any

from moorage_operator.api.fields import Fields, Problem
from moorage_operator.api.label_selectors import LabelSelector, parse_selector
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.values.gateways import (
    GatewayKey,
    GatewayObserved,
    GatewaysObserved,
    Listener,
)

__all__ = ["GatewayStore", "gateway", "gateway_keys"]

Body = Mapping[str, Any]

SERVING = ("Accepted", "Programmed")
"""The conditions of a listener that serves; one that its controller does not report counts."""


def gateway_keys(model: InferenceModel) -> frozenset[GatewayKey]:
    """Return the Gateways that the model's route names."""
    return frozenset(
        (each.namespace or model.namespace, each.name) for each in model.route.parent_refs
    )


class GatewayStore:
    """All Gateways that the operator can read.

    Args:
        changed: Called with a Gateway that changed, or None for all of them.
    """

    def __init__(self, *, changed: Callable[[GatewayKey | None], None]) -> None:
        self._changed = changed
        self._by_key: dict[GatewayKey, tuple[str, GatewayObserved]] = {}  # with their uids
        self._keys: dict[str, GatewayKey] = {}  # by uid
        self._listed: set[str] = set()  # namespaces, "" for all

    def of(
        self, model: InferenceModel, namespace_labels: Mapping[str, str] | None
    ) -> GatewaysObserved:
        """Return the Gateways of a model's route."""
        found: dict[GatewayKey, GatewayObserved | None] = {}
        for key in sorted(gateway_keys(model)):
            if self._listed & {"", key[0]}:
                known = self._by_key.get(key)
                found[key] = known[1] if known else None
        return GatewaysObserved(found, namespace_labels)

    def put(self, body: Body) -> None:
        """Store a Gateway."""
        metadata = body["metadata"]
        key, uid, parsed = (
            (metadata["namespace"], metadata["name"]),
            metadata["uid"],
            gateway(body),
        )
        known = self._by_key.get(key)
        self._keys[uid] = key
        self._by_key[key] = uid, parsed
        if known is None or known[1] != parsed:
            self._changed(key)

    def drop(self, uid: str) -> None:
        """Remove a deleted Gateway, unless another one has its name."""
        key = self._keys.pop(uid, None)
        if key and self._by_key[key][0] == uid:
            del self._by_key[key]
            self._changed(key)

    def end_list(self, namespace: str) -> None:
        """Take note that all Gateways of a namespace are known."""
        if namespace not in self._listed:
            self._listed.add(namespace)
            self._changed(None)

    def put_unreadable(self, namespace: str) -> None:
        """Take note that the Gateways of a namespace may no longer be read."""
        if namespace in self._listed:
            self._listed.remove(namespace)
            self._changed(None)

    def forget(self) -> None:
        """Take note that no Gateway is watched any more."""
        if self._listed:
            self._listed.clear()
            self._changed(None)


def gateway(body: Body) -> GatewayObserved:
    """Convert a Gateway."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    states = {each["name"]: each.get("conditions") or [] for each in status.get("listeners") or []}
    return GatewayObserved(
        listeners=tuple(
            _listener(each, states.get(each["name"], [])) for each in spec.get("listeners") or []
        ),
        addresses=tuple(
            each["value"] for each in status.get("addresses") or [] if each.get("value")
        ),
    )


def _listener(body: Body, conditions: list[Body]) -> Listener:
    allowed = body.get("allowedRoutes") or {}
    namespaces = allowed.get("namespaces") or {}
    kinds = (each["kind"] for each in allowed.get("kinds") or [])
    return Listener(
        name=body["name"],
        protocol=body["protocol"],
        port=body["port"],
        hostname=body.get("hostname") or "",
        route_kinds=frozenset(kinds),
        namespaces=namespaces.get("from") or "Same",
        selector=_selector(namespaces.get("selector")),
        is_broken=any(
            each.get("type") in SERVING and each.get("status") == "False" for each in conditions
        ),
    )


def _selector(value: Any) -> LabelSelector | None:
    problems: list[Problem] = []
    selector = parse_selector(Fields(value, "selector", problems))
    return None if problems or value is None else selector
