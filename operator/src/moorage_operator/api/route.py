"""`spec.route`: the Gateways or the Ingress that send requests to the model, and its host names.

`resources.route` builds the HTTPRoute and the GRPCRoute, `resources.ingress` the Ingress.

Source: Gateway API v1, ParentReference, Hostname and GRPCRouteSpec.hostnames.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .fields import Fields
from .hostnames import ADDRESS, HOSTNAME, OBJECT_NAME, intersection

__all__ = ["GrpcRoute", "IngressRoute", "ParentRef", "Route", "parse_route"]

PARENT_LIMIT = 8
HOSTNAME_LIMIT = 16
ANNOTATION_LIMIT = 64
OWN_ANNOTATIONS = "moorage.dev/"

NAME_LIMIT = 253
NAMESPACE_LIMIT = 63


@dataclass(frozen=True, slots=True)
class ParentRef:
    """A Gateway. An empty namespace means the model's; an empty section means every listener."""

    name: str
    namespace: str = ""
    section_name: str = ""


@dataclass(frozen=True, slots=True)
class GrpcRoute:
    """`spec.route.grpc`. Without host names, the HTTPRoute carries gRPC too."""

    hostnames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IngressRoute:
    """`spec.route.ingress`; empty texts mean the defaults of the cluster and no TLS."""

    class_name: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    tls_secret_name: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """`spec.route`: with `parent_refs` routes of the Gateway API, with `ingress` an Ingress."""

    parent_refs: tuple[ParentRef, ...] = ()
    hostnames: tuple[str, ...] = ()
    grpc: GrpcRoute = GrpcRoute()
    ingress: IngressRoute | None = None

    @property
    def is_given(self) -> bool:
        """Whether requests from outside the cluster are requested."""
        return bool(self.parent_refs) or self.ingress is not None


def parse_route(fields: Fields) -> Route:
    """Read the section; record invalid values as problems."""
    route = Route(
        parent_refs=_parse_parents(fields),
        hostnames=_parse_hostnames(fields),
        grpc=_parse_grpc(fields),
        ingress=_parse_ingress(fields),
    )
    fields.unknown()
    if fields.is_given and not fields.peek("parentRefs") and not route.is_given:
        expected = "a list of at least one Gateway, such as [{name: web}], unless ingress is set"
        fields.require("parentRefs", expected)
    if route.grpc.hostnames:
        _check_grpc(route, fields)
    return route


def _parse_grpc(fields: Fields) -> GrpcRoute:
    below = fields.child("grpc")
    grpc = GrpcRoute(_parse_hostnames(below))
    if fields.has("grpc") and not below.peek("hostnames"):
        below.require("hostnames", "a list of at least one host name, such as [grpc.example.com]")
    below.unknown()
    return grpc


def _check_grpc(route: Route, fields: Fields) -> None:
    """Check that no Gateway sees an HTTPRoute and a GRPCRoute with a common host name."""
    if not fields.peek("parentRefs"):
        sentence = (
            "requires route.parentRefs, because an Ingress carries only HTTP; set parentRefs or "
            "remove grpc"
        )
        fields.report("grpc", sentence)
    if not fields.peek("hostnames"):
        sentence = (
            "must be set with route.grpc: without it the HTTPRoute matches every host, and a "
            "Gateway accepts only one of two routes with a common host name"
        )
        fields.report("hostnames", sentence)
    for name in route.grpc.hostnames:
        common = [each for each in route.hostnames if intersection(name, each)]
        if common:
            expected = (
                f"a host name that route.hostnames does not match; {common[0]!r} does, and a "
                "Gateway accepts only one of two routes with a common host name"
            )
            fields.child("grpc").reject("hostnames", name, expected)


def _parse_ingress(fields: Fields) -> IngressRoute | None:
    if not fields.has("ingress"):
        return None
    below = fields.child("ingress")
    ingress = IngressRoute(
        class_name=_parse_name(below, "className", NAME_LIMIT),
        annotations=_parse_annotations(below),
        tls_secret_name=_parse_name(below, "tlsSecretName", NAME_LIMIT),
    )
    below.unknown()
    return ingress


def _parse_annotations(fields: Fields) -> Mapping[str, str]:
    found = fields.mapping("annotations")
    if len(found) > ANNOTATION_LIMIT:
        fields.reject_length("annotations", len(found), ANNOTATION_LIMIT, "annotations")
    for name, value in found.items():
        if not isinstance(value, str):
            fields.reject(f"annotations.{name}", value, "a string")
        if name.startswith(OWN_ANNOTATIONS):
            sentence = f"annotations of {OWN_ANNOTATIONS} belong to the operator; remove it"
            fields.report(f"annotations.{name}", sentence)
    return found


def _parse_parents(fields: Fields) -> tuple[ParentRef, ...]:
    parents = tuple(map(_parse_parent, fields.children("parentRefs", PARENT_LIMIT, "Gateways")))
    for at, parent in enumerate(parents):
        if parent.name and any(_overlap(parent, other) for other in parents[:at]):
            sentence = (
                f"refers to Gateway {parent.name!r} like an earlier entry; remove one of them, or "
                "give each a different sectionName"
            )
            fields.report(f"parentRefs[{at}]", sentence)
    return parents


def _overlap(one: ParentRef, other: ParentRef) -> bool:
    """Whether the API server refuses a route with both."""
    if (one.name, one.namespace) != (other.name, other.namespace):
        return False
    sections = (one.section_name, other.section_name)
    return "" in sections or one.section_name == other.section_name


def _parse_parent(fields: Fields) -> ParentRef:
    parent = ParentRef(
        name=_parse_name(fields, "name", NAME_LIMIT),
        namespace=_parse_name(fields, "namespace", NAMESPACE_LIMIT),
        section_name=_parse_name(fields, "sectionName", NAME_LIMIT),
    )
    if not fields.peek("name"):
        fields.require("name", "the name of a Gateway")
    fields.unknown()
    return parent


def _parse_name(fields: Fields, name: str, limit: int) -> str:
    text = fields.text(name)
    if text and (len(text) > limit or not OBJECT_NAME.fullmatch(text)):
        expected = (
            f"at most {limit} lowercase letters, digits, '-' and '.', with a letter or digit at "
            "both ends"
        )
        fields.reject(name, text, expected)
    return text


def _parse_hostnames(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("hostnames")
    if len(found) > HOSTNAME_LIMIT:
        fields.reject_length("hostnames", len(found), HOSTNAME_LIMIT, "names")
    for name in found:
        is_name = HOSTNAME.fullmatch(name) and not ADDRESS.fullmatch(name)
        if len(name) > NAME_LIMIT or not is_name:
            expected = "a DNS name such as iris.example.com or *.example.com, not an address"
            fields.reject("hostnames", name, expected)
    return found
