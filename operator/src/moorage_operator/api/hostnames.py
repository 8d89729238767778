"""Host names of routes and listeners, with a wildcard as their first label; pure.

Source: Gateway API v1, Hostname, and HTTPRouteSpec.hostnames: `*.example.com` matches every name
below example.com and not example.com itself.
"""

import re

__all__ = ["ADDRESS", "HOSTNAME", "OBJECT_NAME", "intersection", "is_wildcard"]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
HOSTNAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")
ADDRESS = re.compile(r"[0-9.]+")  # an IPv4 address; one of IPv6 has colons
OBJECT_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_wildcard(name: str) -> bool:
    """Whether a name matches several hosts."""
    return name.startswith("*.")


def intersection(one: str, other: str) -> str:
    """Return the more specific of two overlapping names, "" if they have no host in common."""
    if one == other or _covers(other, one):
        return one
    return other if _covers(one, other) else ""


def _covers(wildcard: str, name: str) -> bool:
    return is_wildcard(wildcard) and name.endswith(wildcard[1:])
