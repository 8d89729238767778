"""spec.route: Gateways, host names and the Ingress, and a sentence for each invalid value."""

from typing import Any

import pytest

from moorage_operator.api.fields import Fields, Problem
from moorage_operator.api.route import GrpcRoute, IngressRoute, ParentRef, Route, parse_route
from support.spec_sentences import UNKNOWN

WEB = {"name": "web"}
GATEWAYS = {"name": "web", "namespace": "gateways"}
HTTPS = {"name": "web", "sectionName": "https"}
REPEATED = (
    "refers to Gateway 'web' like an earlier entry; remove one of them, or give each a different "
    "sectionName"
)
HOST = "a DNS name such as iris.example.com or *.example.com, not an address"
NEEDED = (
    "parentRefs: is required and must be a list of at least one Gateway, such as [{name: web}], "
    "unless ingress is set"
)


def letters(limit: int) -> str:
    return (
        f"at most {limit} lowercase letters, digits, '-' and '.', with a letter or digit at both "
        "ends"
    )


def read(route: Any) -> tuple[Route, list[str], Any]:
    """A route, its problems, and what is written of it."""
    found: list[Problem] = []
    fields = Fields(route, "spec.route", found)
    parsed = parse_route(fields)
    return parsed, [str(problem) for problem in found], fields.written()


def test_without_a_route_there_is_none():
    parsed, problems, written = read(None)

    assert (parsed, problems, written) == (Route(), [], {})
    assert not parsed.is_given


def test_gateways_and_host_names_are_read():
    longest = ".".join(["a" * 62] * 4) + ".b"
    route = {
        "parentRefs": [
            {"name": "a" * 253, "namespace": "b" * 63, "sectionName": "c" * 253},
            *[{"name": f"web{at}"} for at in range(7)],
        ],
        "hostnames": ["*.example.com", longest, *["a"] * 14],
        "grpc": {"hostnames": ["grpc.example.org"]},
    }
    parsed, problems, written = read(route)

    assert problems == []
    assert written == route
    assert parsed.parent_refs == (
        ParentRef("a" * 253, "b" * 63, "c" * 253),
        *[ParentRef(f"web{at}") for at in range(7)],
    )
    assert parsed.hostnames == ("*.example.com", longest, *["a"] * 14)
    assert parsed.grpc == GrpcRoute(("grpc.example.org",))
    assert parsed.ingress is None
    assert parsed.is_given


@pytest.mark.parametrize(
    "parents",
    [
        [WEB, GATEWAYS, {**WEB, "namespace": "b"}, {"name": "w"}],
        [HTTPS, {**WEB, "sectionName": "http"}, {**HTTPS, "namespace": "b"}],
    ],
)
def test_different_gateways_and_listeners_are_accepted(parents: list[dict[str, str]]) -> None:
    assert read({"parentRefs": parents})[1] == []


def test_an_ingress_is_read():
    annotations = {str(at): "" for at in range(64)}
    ingress = {
        "className": "nginx",
        "annotations": annotations,
        "tlsSecretName": "iris-tls",
    }
    parsed, problems, _ = read({"ingress": ingress, "hostnames": ["iris.example.com"]})

    assert problems == []
    assert parsed.ingress == IngressRoute("nginx", annotations, "iris-tls")
    assert parsed.is_given
    assert read({"ingress": {}})[0].ingress == IngressRoute()


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ({"hostnames": ["a.b"]}, [NEEDED]),
        ({"parentRefs": []}, [NEEDED]),
        (
            {"parentRefs": [{}]},
            ["parentRefs[0].name: is required and must be the name of a Gateway"],
        ),
        (
            {"parentRefs": [WEB, {"name": ""}]},
            ["parentRefs[1].name: is required and must be the name of a Gateway"],
        ),
        (
            {"parentRefs": [{"name": "-a"}]},
            [f"parentRefs[0].name: '-a' is invalid: must be {letters(253)}"],
        ),
        (
            {"parentRefs": [{"name": "a" * 254}]},
            [f"parentRefs[0].name: '{'a' * 76}... is invalid: must be {letters(253)}"],
        ),
        (
            {"parentRefs": [{**WEB, "namespace": "a" * 64}]},
            [f"parentRefs[0].namespace: '{'a' * 64}' is invalid: must be {letters(63)}"],
        ),
        (
            {"parentRefs": [{**WEB, "sectionName": "A"}]},
            [f"parentRefs[0].sectionName: 'A' is invalid: must be {letters(253)}"],
        ),
        ({"parentRefs": [{**WEB, "port": 80}]}, [f"parentRefs[0].port: {UNKNOWN}"]),
        ({"parentRefs": [WEB, {"name": "w"}, WEB]}, [f"parentRefs[2]: {REPEATED}"]),
        ({"parentRefs": [GATEWAYS, GATEWAYS]}, [f"parentRefs[1]: {REPEATED}"]),
        ({"parentRefs": [HTTPS, HTTPS]}, [f"parentRefs[1]: {REPEATED}"]),
        ({"parentRefs": [WEB, HTTPS]}, [f"parentRefs[1]: {REPEATED}"]),
        ({"parentRefs": [HTTPS, WEB]}, [f"parentRefs[1]: {REPEATED}"]),
        ({"parentRefs": [WEB] * 9}, ["parentRefs: has 9 Gateways: must have at most 8"]),
        (
            {"parentRefs": [WEB], "hostnames": ["a"] * 17},
            ["hostnames: has 17 names: must have at most 16"],
        ),
        (
            {"parentRefs": [WEB], "hostnames": ["a", "A", "10.0.0.1"]},
            [
                f"hostnames: 'A' is invalid: must be {HOST}",
                f"hostnames: '10.0.0.1' is invalid: must be {HOST}",
            ],
        ),
        (
            {"parentRefs": [WEB], "hostnames": [f"{'a' * 252}.b"]},
            [f"hostnames: '{'a' * 76}... is invalid: must be {HOST}"],
        ),
        ({"parentRefs": [WEB], "weight": 1}, [f"weight: {UNKNOWN}"]),
        (
            {"parentRefs": [WEB], "grpc": {}},
            [
                (
                    "grpc.hostnames: is required and must be a list of at least one host name, "
                    "such as [grpc.example.com]"
                )
            ],
        ),
        (
            {"parentRefs": [WEB], "hostnames": ["a"], "grpc": {"hostnames": ["b"], "port": 1}},
            [f"grpc.port: {UNKNOWN}"],
        ),
        (
            {"parentRefs": [WEB], "grpc": {"hostnames": ["g.a"]}},
            [
                (
                    "hostnames: must be set with route.grpc: without it the HTTPRoute matches "
                    "every host, and a Gateway accepts only one of two routes with a common host "
                    "name"
                )
            ],
        ),
        (
            {
                "parentRefs": [WEB],
                "hostnames": ["b", "*.a", "g.a"],
                "grpc": {"hostnames": ["c", "g.a"]},
            },
            [
                (
                    "grpc.hostnames: 'g.a' is invalid: must be a host name that route.hostnames "
                    "does not match; '*.a' does, and a Gateway accepts only one of two routes "
                    "with a common host name"
                )
            ],
        ),
        (
            {"ingress": {}, "hostnames": ["a"], "grpc": {"hostnames": ["g.a"]}},
            [
                (
                    "grpc: requires route.parentRefs, because an Ingress carries only HTTP; set "
                    "parentRefs or remove grpc"
                )
            ],
        ),
        (
            {"ingress": {"className": "A"}},
            [f"ingress.className: 'A' is invalid: must be {letters(253)}"],
        ),
        (
            {"ingress": {"tlsSecretName": "a" * 254}},
            [f"ingress.tlsSecretName: '{'a' * 76}... is invalid: must be {letters(253)}"],
        ),
        (
            {"ingress": {"annotations": {"a": 1}}},
            ["ingress.annotations.a: 1 is invalid: must be a string"],
        ),
        (
            {"ingress": {"annotations": {"moorage.dev/applied-hash": "x"}}},
            [
                (
                    "ingress.annotations.moorage.dev/applied-hash: annotations of moorage.dev/ "
                    "belong to the operator; remove it"
                )
            ],
        ),
        (
            {"ingress": {"annotations": {str(at): "" for at in range(65)}}},
            ["ingress.annotations: has 65 annotations: must have at most 64"],
        ),
        (
            {"parentRefs": "web", "hostnames": "a", "grpc": {"hostnames": ["g.a"]}},
            [
                "parentRefs: 'web' is invalid: must be a list",
                "hostnames: 'a' is invalid: must be a list",
            ],
        ),
        ({"ingress": {"class": "a"}}, [f"ingress.class: {UNKNOWN}"]),
    ],
)
def test_an_invalid_field_is_reported(route: Any, expected: list[str]) -> None:
    assert read(route)[1] == [f"spec.route.{each}" for each in expected]
