"""Every row of the multi-tenancy guide's table of roles, as a request of that user."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kubernetes.client import RbacAuthorizationV1Api
from kubernetes.config import new_client_from_config

from support.chart_rights import NAMESPACE, RELEASE, operators_kubeconfig
from support.operator_cluster import Api, eventually

pytestmark = pytest.mark.integration

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "multi-tenancy.md"
ROW = re.compile(
    r"\| ([a-z ]+) \| `(\w+) ([a-z/]+)` \| (own|other|cluster|release) \| (yes|no) \|"
)
ROWS = ROW.findall(GUIDE.read_text().split("## What each role may do", 1)[1])
PREFIXES = {
    "inferencemodels": "/apis/moorage.dev/v1alpha1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "validatingadmissionpolicies": "/apis/admissionregistration.k8s.io/v1",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "deployments": "/apis/apps/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "httproutes": "/apis/gateway.networking.k8s.io/v1",
    "grpcroutes": "/apis/gateway.networking.k8s.io/v1",
    "gateways": "/apis/gateway.networking.k8s.io/v1",
    "scaledobjects": "/apis/keda.sh/v1alpha1",
    "leases": "/apis/coordination.k8s.io/v1",
    **dict.fromkeys(
        ("secrets", "pods", "services", "configmaps", "serviceaccounts", "nodes"), "/api/v1"
    ),
}
METHODS = {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
ABSENT = "nobody-made-this"
FORBIDDEN = 403

Ask = Callable[[str, str, str, str], int]


@pytest.fixture(scope="module")
def ask(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Sends a request as one of the guide's users; the HTTP status."""
    own, other = "tenant-own", "tenant-other"
    operators_kubeconfig(kubeconfig, tmp_path_factory.mktemp("rights"))
    for name in (own, other):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        Api(kubeconfig, name).of("Namespace").create(body=body)
    client = new_client_from_config(str(kubeconfig))
    users = {
        "namespace admin": ("of-admin", "tenants"),
        "edit": ("of-edit", "tenants"),
        "view": ("of-view", "tenants"),
        "nobody": ("of-none", "tenants"),
        "cluster admin": ("root", "system:masters"),
        "operator": (f"system:serviceaccount:{NAMESPACE}:{RELEASE}", "system:serviceaccounts"),
        "model pod": (f"system:serviceaccount:{own}:default", "system:serviceaccounts"),
    }
    for role in ("admin", "edit", "view"):
        _bind(client, own, role, f"of-{role}")
    places = {"own": own, "other": other, "release": NAMESPACE, "cluster": ""}

    def send(who: str, verb: str, resource: str, where: str) -> int:
        user, group = users[who]
        plural, _, subresource = resource.partition("/")
        parts = [PREFIXES[plural]]
        parts += [f"namespaces/{places[where]}"] if places[where] else []
        parts.append(plural)
        named = verb in ("get", "patch", "delete") or subresource
        parts += [ABSENT] if named else []
        parts += [subresource] if subresource else []
        headers = {"Impersonate-User": user, "Impersonate-Group": group}
        kind = "merge-patch+json" if verb == "patch" else "json"
        headers["Content-Type"] = f"application/{kind}"
        # nothing is created: the body has no kind, and the request is a dry run
        query = "" if METHODS[verb] == "GET" else "?dryRun=All"
        answer = client.rest_client.pool_manager.request(
            METHODS[verb],
            f"{client.configuration.host}{'/'.join(parts)}{query}",
            headers=headers,
            body=None if METHODS[verb] == "GET" else b"{}",
        )
        return answer.status

    # the controller manager adds the chart's rules to Kubernetes' roles
    eventually(
        "the aggregated roles", lambda: send("view", "get", "inferencemodels", "own") != FORBIDDEN
    )
    eventually(
        "the aggregated roles",
        lambda: send("edit", "create", "inferencemodels", "own") != FORBIDDEN,
    )
    return send


def _bind(client: object, namespace: str, role: str, user: str) -> None:
    body = {
        "metadata": {"name": user},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role,
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    RbacAuthorizationV1Api(client).create_namespaced_role_binding(namespace, body)


@pytest.mark.parametrize(
    ("who", "verb", "resource", "where", "allowed"),
    ROWS,
    ids=[" ".join(row[:4]).replace(" ", "-") for row in ROWS],
)
def test_the_guide_matches_the_rights_of_the_roles(
    ask: Ask, who: str, verb: str, resource: str, where: str, allowed: str
) -> None:
    status = ask(who, verb, resource, where)

    assert (status != FORBIDDEN) is (allowed == "yes"), f"HTTP {status}"


def test_every_row_of_the_table_is_tested() -> None:
    lines = [
        line for line in GUIDE.read_text().splitlines() if line.endswith(("| yes |", "| no |"))
    ]

    assert len(lines) == len(ROWS) > 50
