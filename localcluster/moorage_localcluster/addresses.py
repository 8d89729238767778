"""The addresses of a node, its pods and Services: IPv4 or, with CLUSTER_IPV6=1, only IPv6."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["IPV4", "IPV6", "Addresses", "chosen"]


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of one family.

    Attributes:
        family: As in an EndpointSlice.
        bridge: Of the node, in the range of the pods.
        bridge_prefix: Length of the bridge's prefix.
        pods: Range of the pods.
        first_pod: Address of the first pod.
        services: Range of the Services.
        api_service: Of the Service `kubernetes`, the first of its range.
        dns_service: Of the DNS server's Service.
        every: All addresses of the machine, for a listener.
        default_route: Destination of the pods' default route.
        forwarding: The kernel's setting that lets the node forward packets.
        remembered: Name of the file that keeps the setting's value.
    """

    family: str
    bridge: str
    bridge_prefix: int
    pods: str
    first_pod: str
    services: str
    api_service: str
    dns_service: str
    every: str
    default_route: str
    forwarding: Path
    remembered: str


IPV4 = Addresses(
    family="IPv4",
    bridge="10.244.0.1",
    bridge_prefix=16,
    pods="10.244.0.0/16",
    first_pod="10.244.0.10",
    services="10.96.0.0/16",
    api_service="10.96.0.1",
    dns_service="10.96.0.10",
    every="0.0.0.0",
    default_route="0.0.0.0/0",
    forwarding=Path("/proc/sys/net/ipv4/ip_forward"),
    remembered="ip_forward.before",
)
IPV6 = Addresses(
    family="IPv6",
    bridge="fd00:244::1",
    bridge_prefix=64,
    pods="fd00:244::/64",
    first_pod="fd00:244::10",
    services="fd00:96::/112",
    api_service="fd00:96::1",
    dns_service="fd00:96::a",
    every="::",
    default_route="::/0",
    forwarding=Path("/proc/sys/net/ipv6/conf/all/forwarding"),
    remembered="ipv6_forwarding.before",
)


def chosen(variable: str) -> Addresses:
    """The addresses for a value of CLUSTER_IPV6."""
    return IPV6 if variable == "1" else IPV4
