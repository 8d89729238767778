"""Checks of a model's route with the Gateways that the same files have; pure.

    lint --> **route_check**: a spec, Gateways --> problems

Only what the files show is judged: a Gateway that no file has may exist in the cluster.

Source: Gateway API v1, ParentReference.sectionName, Listener.hostname, HTTPRouteSpec.hostnames.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from moorage_cli.manifests.fields import mapping, mappings
from moorage_cli.manifests.structural import Problem

__all__ = ["GATEWAY", "GatewayDocument", "read_gateway", "route_problems"]

GATEWAY = "Gateway"
_GROUP = "gateway.networking.k8s.io/"
# Other protocols carry no routes of a model.
_PROTOCOLS = ("HTTP", "HTTPS")


@dataclass(frozen=True, slots=True)
class GatewayDocument:
    """A Gateway of the files; an empty namespace is the one of the command that applies it.

    `listeners` are the host names by the name of the listener; an empty one matches every host.
    """

    name: str
    namespace: str
    listeners: Mapping[str, str]


def read_gateway(body: Mapping[str, Any]) -> GatewayDocument | None:
    """Read a document; None if it is not a Gateway with listeners."""
    metadata, spec = mapping(body.get("metadata")), mapping(body.get("spec"))
    if body.get("kind") != GATEWAY or not str(body.get("apiVersion")).startswith(_GROUP):
        return None
    listeners = {
        str(each.get("name")): str(each.get("hostname") or "")
        for each in mappings(spec.get("listeners"))
        if each.get("protocol") in _PROTOCOLS
    }
    if not listeners or not metadata.get("name"):
        return None
    return GatewayDocument(str(metadata["name"]), str(metadata.get("namespace") or ""), listeners)


def route_problems(
    spec: Mapping[str, Any], namespace: str, gateways: Sequence[GatewayDocument]
) -> Iterator[Problem]:
    """The listeners that a route names and that do not exist, and hosts that none of them has.

    Args:
        spec: The spec of a model.
        namespace: Its namespace, "" if the file does not name it.
        gateways: The Gateways of the files.
    """
    route = mapping(spec.get("route"))
    parents = mappings(route.get("parentRefs"))
    found = [_named(parent, namespace, gateways) for parent in parents]
    names: list[str] = []
    for at, (parent, gateway) in enumerate(zip(parents, found, strict=True)):
        if gateway is None:
            return  # it may have any listener
        section = parent.get("sectionName")
        if section and section not in gateway.listeners:
            listed = ", ".join(gateway.listeners)
            problem = f"{section!r} is not a listener of Gateway {gateway.name}: must be {listed}"
            yield Problem(f"spec.route.parentRefs[{at}].sectionName", problem)
            return
        chosen = [str(section)] if section else list(gateway.listeners)
        names += [gateway.listeners[each] for each in chosen]
    if not parents or "" in names:
        return
    for path, hosts in (
        ("spec.route.hostnames", route.get("hostnames")),
        ("spec.route.grpc.hostnames", mapping(route.get("grpc")).get("hostnames")),
    ):
        for at, host in enumerate(cast("Sequence[str]", hosts or ())):
            if not any(_overlap(host, name) for name in names):
                problem = (
                    f"{host!r} matches no listener of the Gateways in route.parentRefs, whose "
                    f"host names are {', '.join(dict.fromkeys(names))}"
                )
                yield Problem(f"{path}[{at}]", problem)


def _named(
    parent: Mapping[str, Any], namespace: str, gateways: Sequence[GatewayDocument]
) -> GatewayDocument | None:
    """The Gateway that a reference names; None unless the files have exactly one."""
    wanted = str(parent.get("namespace") or namespace)
    fitting = [
        each
        for each in gateways
        if each.name == parent.get("name")
        and (each.namespace or wanted) == (wanted or each.namespace)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _overlap(one: str, other: str) -> bool:
    """Whether two host names have a host in common; `*.` matches one or more labels."""
    return one == other or any(
        wildcard.startswith("*.") and name.endswith(wildcard[1:])
        for wildcard, name in ((one, other), (other, one))
    )
