"""Converts NetworkPolicies to nftables rules, for a cluster whose network enforces none; pure.

    policies, pods, namespaces --> ruleset --> policy_agent loads it into the kernel

Source: Kubernetes API reference, NetworkPolicySpec. A pod that a policy selects is isolated in
that policy's directions, except for traffic that a rule of some policy allows. Answers of an
allowed connection are allowed too, and a node can always reach its own pods.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TABLE = "moorage-policies"
Json = Mapping[str, Any]
# The type of a policy, the field of its rules and that of their peers, and the end of a packet
# that the selected pod is at and the one that its peer is at.
INGRESS = ("Ingress", "ingress", "from", "daddr", "saddr")
EGRESS = ("Egress", "egress", "to", "saddr", "daddr")


@dataclass(frozen=True)
class Pod:
    """The facts of a pod that a policy may select by."""

    namespace: str
    labels: Mapping[str, str]
    address: str
    ports: Mapping[str, int]


@dataclass(frozen=True)
class Cluster:
    """All that selectors choose from; labels by the namespace's name."""

    pods: Sequence[Pod]
    namespaces: Mapping[str, Mapping[str, str]]


def parse_pod(found: Json) -> Pod | None:
    """A pod with its own address, otherwise None."""
    address = found.get("status", {}).get("podIP")
    if not address or found["spec"].get("hostNetwork"):
        return None
    ports = {
        port["name"]: port["containerPort"]
        for container in found["spec"]["containers"]
        for port in container.get("ports", [])
        if "name" in port
    }
    metadata = found["metadata"]
    return Pod(metadata["namespace"], metadata.get("labels", {}), address, ports)


def ruleset(policies: Sequence[Json], cluster: Cluster) -> str:
    """A script for `nft -f` that replaces the rules of an earlier one."""
    chains: dict[str, list[str]] = {}
    jumps: list[str] = []
    for pod in cluster.pods:
        for direction in (INGRESS, EGRESS):
            type_, field, _, at_pod, _ = direction
            selecting = [each for each in policies if _selects(each, type_, pod)]
            if selecting:
                name = f"{field}-{pod.address.replace('.', '-')}"
                opened = [
                    line
                    for policy in selecting
                    for rule in policy["spec"].get(field, [])
                    for line in _opened(rule, direction, policy, pod, cluster)
                ]
                chains[name] = [*opened, "drop"]
                jumps.append(f"ip {at_pod} {pod.address} jump {name}")
    return _script(chains, jumps)


def _script(chains: Mapping[str, Sequence[str]], jumps: Sequence[str]) -> str:
    # Between pods packets are forwarded; the API server is a process of the host.
    bases = {
        hook: [
            f"type filter hook {hook} priority filter",
            "ct state established,related accept",
            *jumps,
        ]
        for hook in ("forward", "input")
    }
    text = "".join(
        f"  chain {name} {{\n{''.join(f'    {line}{chr(10)}' for line in lines)}  }}\n"
        for name, lines in {**chains, **bases}.items()
    )
    # Made first, so that there is one to delete.
    return f"table ip {TABLE}\ndelete table ip {TABLE}\ntable ip {TABLE} {{\n{text}}}\n"


def _selects(policy: Json, type_: str, pod: Pod) -> bool:
    spec = policy["spec"]
    return (
        policy["metadata"]["namespace"] == pod.namespace
        and type_ in spec["policyTypes"]
        and matches(spec["podSelector"], pod.labels)
    )


def _opened(
    rule: Json, direction: tuple[str, ...], policy: Json, pod: Pod, cluster: Cluster
) -> Iterator[str]:
    """Matches of what a rule lets through; they return to where the packet was looked at."""
    *_, peers_field, _, at_peer = direction
    peers = rule.get(peers_field, [])
    whom = ""
    if peers:
        addresses = sorted({one for each in peers for one in _addresses(each, policy, cluster)})
        if not addresses:
            return
        whom = f"ip {at_peer} {{ {', '.join(addresses)} }} "
    if not rule.get("ports"):
        yield f"{whom}return"
    for port in rule.get("ports", []):
        number = pod.ports.get(port["port"], port["port"])
        if isinstance(number, str):
            continue  # a name that the pod has not
        yield f"{whom}{port.get('protocol', 'TCP').lower()} dport {number} return"


def _addresses(peer: Json, policy: Json, cluster: Cluster) -> Iterator[str]:
    if "ipBlock" in peer:
        raise ValueError(
            f"peer of a policy: {peer!r}; pods and namespaces alone are enforced here"
        )
    own = policy["metadata"]["namespace"]
    for pod in cluster.pods:
        if "namespaceSelector" in peer:
            inside = matches(peer["namespaceSelector"], cluster.namespaces[pod.namespace])
        else:
            inside = pod.namespace == own
        if inside and matches(peer.get("podSelector", {}), pod.labels):
            yield pod.address


def matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector chooses something with these labels."""
    wanted = selector.get("matchLabels", {})
    return wanted.items() <= labels.items() and all(
        _holds(each, labels) for each in selector.get("matchExpressions", [])
    )


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case other:
            raise ValueError(f"operator of a label selector: {other!r}")


def parse_cluster(pods: Iterable[Json], namespaces: Iterable[Json]) -> Cluster:
    """The objects at the API server that selectors refer to."""
    found = [pod for pod in map(parse_pod, pods) if pod]
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in namespaces}
    return Cluster(found, labels)
