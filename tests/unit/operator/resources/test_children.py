"""Single children: the Deployment and Service of a revision, routes, Ingress and autoscaler."""

from typing import Any

import msgspec
import pytest

from moorage_operator.api.route import IngressRoute
from moorage_operator.api.v1alpha1 import Ports
from moorage_operator.resources.autoscaler import autoscaler_kind, make_autoscaler
from moorage_operator.resources.deployment import make_deployment
from moorage_operator.resources.ingress import make_ingress
from moorage_operator.resources.kept_revision import make_kept_revision, read_kept_revision
from moorage_operator.resources.network_policy import make_network_policy
from moorage_operator.resources.owned import applied_hash, make_owned
from moorage_operator.resources.pod_template import make_pod_template, revision_of
from moorage_operator.resources.references import references
from moorage_operator.resources.route import Backend, make_routes, route_kinds
from moorage_operator.resources.service import make_service, names_ports
from moorage_operator.values.observed import Reference, ReferenceKind
from support.operator_values import CONFIG, model, planned, record, revision, serving

PLAIN = {"app.kubernetes.io/managed-by": "moorage", "moorage.dev/model": "digits"}


# ---------------------------------------------------------------------- what all have in common


def test_the_hash_of_a_child_covers_all_that_is_applied() -> None:
    def hash_of(name: str = "a", spec: Any = None, **annotations: str) -> str:
        child = make_owned(model(), "v1", "Service", name, spec or {}, annotations=annotations)
        found = child["metadata"]["annotations"]
        assert found == {**annotations, "moorage.dev/applied-hash": applied_hash(child)}
        return applied_hash(child)

    hashes = {hash_of(), hash_of("b"), hash_of(spec={"a": 1}), hash_of(a="b")}

    assert len(hashes) == 4
    assert {len(each) for each in hashes} == {32}
    assert hash_of() == hash_of()


def test_every_child_has_the_labels_and_annotations_of_the_spec() -> None:
    spec: dict[str, Any] = {
        "replicas": 2,
        "scaling": {"maxReplicas": 4},
        "networkPolicy": {"from": []},
        "route": {"ingress": {"annotations": {"contact": "web team"}}},
    }
    marks = {"labels": {"team": "risk"}, "annotations": {"contact": "risk team", "note": "a"}}
    plain, marked = model(**spec), model(**spec, objectMetadata=marks)

    before, after = (planned(each, serving(each, 2)).objects for each in (plain, marked))

    assert len(after) == len(before) >= 6
    for old, new in zip(before, after, strict=True):
        labels, annotations = (new["metadata"][each] for each in ("labels", "annotations"))
        assert labels == {**old["metadata"]["labels"], "team": "risk"}
        contact = "web team" if new["kind"] == "Ingress" else "risk team"
        assert (annotations["contact"], annotations["note"]) == (contact, "a")
        assert annotations.keys() == {*old["metadata"]["annotations"], "contact", "note"}
        assert applied_hash(new) != applied_hash(old)
        assert new["spec"] == old["spec"]


def test_labels_and_annotations_of_the_spec_start_no_rollout() -> None:
    marked = model(objectMetadata={"labels": {"team": "risk"}})

    assert revision(marked) == revision(model())
    assert marked.written == model().written


# ---------------------------------------------------------------------- the Deployment


def deployment(**facts: Any) -> dict[str, Any]:
    return make_deployment(model(), make_pod_template(model(), CONFIG), **facts)


@pytest.mark.parametrize(
    ("name", "selector"),
    [
        ("", PLAIN),
        ("digits", PLAIN),
        ("digits-1", {**PLAIN, "moorage.dev/revision": revision(model())}),
    ],
)
def test_a_deployment_of_one_revision_selects_only_its_pods(
    name: str, selector: dict[str, str]
) -> None:
    made = deployment(name=name)

    assert made["metadata"]["name"] == (name or "digits")
    assert made["spec"]["selector"] == {"matchLabels": selector}


def test_a_deployment_is_paused_and_keeps_a_spec_only_on_request() -> None:
    plain, asked = deployment(), deployment(paused=True, kept_spec="{}")

    assert plain == deployment(name="digits")
    assert "paused" not in plain["spec"]
    assert set(plain["metadata"]["annotations"]) == {"moorage.dev/applied-hash"}
    assert asked["spec"]["paused"] is True
    assert asked["metadata"]["annotations"]["moorage.dev/spec"] == "{}"


# ---------------------------------------------------------------------- the Service


@pytest.mark.parametrize("by_name", [False, True])
def test_a_service_of_one_revision_selects_only_its_pods(by_name: bool) -> None:
    made = make_service(model(), "abc", "digits-abc", by_name=by_name)

    assert made["metadata"]["name"] == "digits-abc"
    assert made["spec"]["selector"] == {**PLAIN, "moorage.dev/revision": "abc"}
    targets = [each["targetPort"] for each in made["spec"]["ports"]]
    assert targets == (["http", "grpc"] if by_name else [8000, 8001])
    assert make_service(model())["spec"]["selector"] == PLAIN
    assert make_service(model()) == make_service(model(), "", "digits", by_name=False)


def ports(*listed: Any) -> dict[str, Any]:
    fields = ("name", "containerPort", "protocol")
    return {"ports": [dict(zip(fields, each, strict=False)) for each in listed]}


HTTP, GRPC = ("http", 8000), ("grpc", 8001)


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([ports(HTTP, GRPC)], True),
        ([ports((*HTTP, "TCP"), (*GRPC, "TCP"))], True),
        ([ports(HTTP), ports(GRPC)], True),
        ([ports(HTTP)], False),
        ([ports(GRPC)], False),
        ([ports(HTTP, ("grpc", 9))], False),
        ([ports(("http", 9), GRPC)], False),
        ([ports(("http", 9)), ports(HTTP, GRPC)], False),
        ([ports(HTTP, GRPC), ports(("http", 9))], True),
        ([ports(("http", 9, "UDP"), HTTP, GRPC)], True),
        ([ports((*HTTP, "UDP"), GRPC)], False),
        (["none", {}, {"ports": ["none"]}, ports(HTTP, GRPC)], True),
        (None, False),
    ],
)
def test_the_first_tcp_port_of_a_name_counts(containers: Any, expected: bool) -> None:
    template = {"spec": {"containers": containers}}

    assert names_ports(template, Ports(8000, 8001)) is expected


# ---------------------------------------------------------------------- references


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [
        ({"volumes": [{"configMap": {"name": "a"}}]}, "ConfigMap", "a"),
        ({"volumes": [{"secret": {"secretName": "a"}}]}, "Secret", "a"),
        (
            {"volumes": [{"persistentVolumeClaim": {"claimName": "a"}}]},
            "PersistentVolumeClaim",
            "a",
        ),
        (
            {"volumes": [{"projected": {"sources": [{"configMap": {"name": "a"}}]}}]},
            "ConfigMap",
            "a",
        ),
        ({"volumes": [{"projected": {"sources": [{"secret": {"name": "a"}}]}}]}, "Secret", "a"),
        ({"containers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}]}, "ConfigMap", "a"),
        ({"containers": [{"envFrom": [{"secretRef": {"name": "a"}}]}]}, "Secret", "a"),
        (
            {"containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "a"}}}]}]},
            "ConfigMap",
            "a",
        ),
        (
            {"initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "a"}}}]}]},
            "Secret",
            "a",
        ),
        ({"volumes": [{"secret": {"secretName": "a", "optional": False}}]}, "Secret", "a"),
        ({"volumes": [{"secret": {"secretName": "a", "optional": True}}]}, "", ""),
        ({"volumes": [{"secret": {"secretName": ""}}]}, "", ""),
        ({"volumes": [{"secret": {"secretName": 1}}]}, "", ""),
        ({"volumes": [{"emptyDir": {}}, None], "containers": "none"}, "", ""),
        ("none", "", ""),
    ],
)
def test_each_way_to_refer_to_an_object_is_found(spec: Any, kind: str, name: str) -> None:
    expected = {Reference(ReferenceKind(kind), name)} if kind else frozenset()

    assert references({"spec": spec}) == expected


def test_the_references_of_all_parts_of_a_pod_are_found() -> None:
    def reads(*names: str) -> list[dict[str, Any]]:
        return [{"envFrom": [{"secretRef": {"name": name}}]} for name in names]

    spec = {
        "volumes": [{"secret": {"secretName": "a"}}, {"secret": {"secretName": "b"}}],
        "initContainers": reads("c", "d"),
        "containers": reads("e", "f", "a"),
    }

    found = references({"spec": spec})

    assert sorted(each.name for each in found) == list("abcdef")


# ---------------------------------------------------------------------- exposure


PARENTS = {"parentRefs": [{"name": "web"}]}


@pytest.mark.parametrize(
    ("route", "kinds"),
    [
        ({}, ()),
        (PARENTS, ("HTTPRoute",)),
        ({**PARENTS, "hostnames": ["a.example"]}, ("HTTPRoute",)),
        ({**PARENTS, "grpc": {"hostnames": ["a.example"]}}, ("HTTPRoute", "GRPCRoute")),
    ],
)
def test_a_grpc_route_needs_host_names_of_its_own(
    route: dict[str, Any], kinds: tuple[str, ...]
) -> None:
    of = model(route=route)

    assert route_kinds(of) == kinds
    if kinds:
        assert tuple(each["kind"] for each in make_routes(of, ())) == kinds


@pytest.mark.parametrize("grpc", [{}, {"grpc": {"hostnames": ["g.example"]}}])
def test_a_route_has_the_backends_that_get_requests(grpc: dict[str, Any]) -> None:
    of = model(route={**PARENTS, **grpc})
    named = model(route={**PARENTS, "hostnames": ["a.example"], **grpc})
    backends = [
        Backend("main", Ports(1, 2), 90),
        Backend("none", Ports(3, 4), 0),
        Backend("canary", Ports(5, 6), 10),
    ]

    made = list(make_routes(of, backends))

    rules = [rule["backendRefs"] for each in made for rule in each["spec"]["rules"]]
    by_http = [
        {"name": "main", "port": 1, "weight": 90},
        {"name": "canary", "port": 5, "weight": 10},
    ]
    by_grpc = [{**by_http[0], "port": 2}, {**by_http[1], "port": 6}]
    assert rules == ([by_http, by_grpc] if grpc else [by_grpc, by_http])
    assert "hostnames" not in made[0]["spec"]
    assert next(make_routes(named, backends))["spec"]["hostnames"] == ["a.example"]


@pytest.mark.parametrize(
    ("hostnames", "ingress", "hosts", "tls"),
    [
        ([], IngressRoute(), [None], None),
        (["a.example", "b.example"], IngressRoute(), ["a.example", "b.example"], None),
        ([], IngressRoute(tls_secret_name="web"), [None], [{"secretName": "web"}]),
        (
            ["a.example"],
            IngressRoute(tls_secret_name="web"),
            ["a.example"],
            [{"hosts": ["a.example"], "secretName": "web"}],
        ),
    ],
)
def test_an_ingress_has_the_host_names_of_the_route_or_serves_every_host(
    hostnames: list[str], ingress: IngressRoute, hosts: list[str | None], tls: Any
) -> None:
    spec = make_ingress(model(route={"hostnames": hostnames, "ingress": {}}), ingress)["spec"]

    assert [each.get("host") for each in spec["rules"]] == hosts
    assert spec.get("tls") == tls
    assert "ingressClassName" not in spec
    for rule in spec["rules"]:
        (path,) = rule["http"]["paths"]
        assert path["backend"] == {"service": {"name": "digits", "port": {"name": "http"}}}


def test_a_network_policy_allows_the_ports_of_every_revision_once() -> None:
    access = {"networkPolicy": {"from": [{"podSelector": {}}]}}
    beside = [model(runtime={"ports": {"http": 8000, "grpc": 9001}})]

    made = make_network_policy(model(**access), CONFIG, beside)

    assert made is not None
    allowed = made["spec"]["ingress"][1]["ports"]
    assert allowed == [{"port": port, "protocol": "TCP"} for port in (8000, 8001, 9001)]


# ---------------------------------------------------------------------- scaling and rollback


CPU, QUERY = (
    {"type": "CPU", "target": 70},
    {"type": "Prometheus", "target": 1, "serverAddress": "http://p", "query": "q"},
)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({}, ""),
        ({"scaling": {"maxReplicas": 2, "metrics": [CPU]}}, "HorizontalPodAutoscaler"),
        ({"scaling": {"maxReplicas": 2, "metrics": [CPU, QUERY]}}, "ScaledObject"),
        ({"scaling": {"maxReplicas": 2, "metrics": [CPU]}, "suspend": True}, ""),
    ],
)
def test_only_a_query_of_prometheus_needs_keda(spec: dict[str, Any], kind: str) -> None:
    of = model(**spec)

    assert autoscaler_kind(of) == kind
    if kind:
        assert make_autoscaler(of)["kind"] == kind


def test_a_kept_revision_is_read_back() -> None:
    of = model()
    kept = record(of)

    made = make_kept_revision(of, "abc", kept)

    assert (made["apiVersion"], made["kind"]) == ("apps/v1", "ControllerRevision")
    assert made["metadata"]["name"] == "digits-abc"
    assert made["metadata"]["labels"]["moorage.dev/revision"] == "abc"
    assert made["revision"] == 1
    assert "spec" not in made
    # An operator with another hash would write each of these objects again.
    assert applied_hash(made) == "43ed577b6f92ae593ea87b17d68a9181"
    read = read_kept_revision(msgspec.json.decode(msgspec.json.encode(made)))
    assert msgspec.json.decode(read.template) == msgspec.json.decode(kept.template)
    assert read.spec == kept.spec
    assert revision_of(msgspec.json.decode(read.template)) == revision(of)


def test_the_hash_of_a_kept_revision_does_not_depend_on_defaults_of_the_api_server() -> None:
    of, kept = model(), record(model())
    more = type(kept)(b'{"a":1}', kept.spec)

    one, other = (make_kept_revision(of, "abc", each) for each in (kept, more))

    assert one["metadata"] == other["metadata"]
    assert one["data"] != other["data"]
