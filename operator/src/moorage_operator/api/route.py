"""`spec.route`: the Gateways that send requests to the model, and the host names they match.

`resources.route` builds the HTTPRoute.

Source: Gateway API v1, ParentReference and Hostname.
"""

import re
from dataclasses import dataclass

from .fields import Fields

__all__ = ["ParentRef", "Route", "parse_route"]

PARENT_LIMIT = 8
HOSTNAME_LIMIT = 16

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
HOSTNAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")
OBJECT_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
NAME_LIMIT = 253
NAMESPACE_LIMIT = 63


@dataclass(frozen=True, slots=True)
class ParentRef:
    """A Gateway. An empty namespace means the model's; an empty section means every listener."""

    name: str
    namespace: str = ""
    section_name: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """`spec.route`. With no `parent_refs`, no route is created."""

    parent_refs: tuple[ParentRef, ...] = ()
    hostnames: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether a route is requested."""
        return bool(self.parent_refs)


def parse_route(fields: Fields) -> Route:
    """Read the section; record invalid values as problems."""
    route = Route(parent_refs=_parse_parents(fields), hostnames=_parse_hostnames(fields))
    fields.unknown()
    if fields.is_given and not route.parent_refs:
        fields.require("parentRefs", "a list of at least one Gateway, such as [{name: web}]")
    return route


def _parse_parents(fields: Fields) -> tuple[ParentRef, ...]:
    return tuple(map(_parse_parent, fields.children("parentRefs", PARENT_LIMIT, "Gateways")))


def _parse_parent(fields: Fields) -> ParentRef:
    parent = ParentRef(
        name=_parse_name(fields, "name", NAME_LIMIT),
        namespace=_parse_name(fields, "namespace", NAMESPACE_LIMIT),
        section_name=_parse_name(fields, "sectionName", NAME_LIMIT),
    )
    if fields.raw("name") is None:
        fields.require("name", "the name of a Gateway")
    fields.unknown()
    return parent


def _parse_name(fields: Fields, name: str, limit: int) -> str:
    text = fields.text(name)
    if text and (len(text) > limit or not OBJECT_NAME.fullmatch(text)):
        expected = f"at most {limit} lowercase letters, digits, '-' and '.'"
        fields.reject(name, text, expected)
    return text


def _parse_hostnames(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("hostnames")
    if len(found) > HOSTNAME_LIMIT:
        fields.reject_length("hostnames", len(found), HOSTNAME_LIMIT, "names")
    for name in found:
        if len(name) > NAME_LIMIT or not HOSTNAME.fullmatch(name):
            expected = "a hostname such as iris.example.com or *.example.com"
            fields.reject("hostnames", name, expected)
    return found
