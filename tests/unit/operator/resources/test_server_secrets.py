"""Children of a model with TLS and tokens: mounts, settings, probes, ports and URLs."""

from typing import Any

import pytest

from moorage_operator.resources import endpoints
from moorage_operator.resources.pod_template import make_pod_template, revision_of
from moorage_operator.resources.references import references
from moorage_operator.resources.service import make_service
from moorage_operator.values.observed import Reference, ReferenceKind
from support.operator_values import CONFIG, model

TLS = {"tls": {"secretName": "iris-tls"}}
TOKENS = {"access": {"tokenSecretName": "iris-tokens"}}
GRPC = {"transport": "GRPC"}
TFS = {"protocol": "TensorFlowServing"}
GRPS = {"protocol": "GRPS"}
SERVER = {"health": {"readinessTarget": "Server"}}
OTHER = {"runtime": {"image": "other:1"}}


def template(**spec: Any) -> dict[str, Any]:
    return make_pod_template(model(**spec), CONFIG)


def container(**spec: Any) -> dict[str, Any]:
    return template(**spec)["spec"]["containers"][0]


@pytest.mark.parametrize("image", [{}, OTHER])
def test_both_secrets_are_mounted_as_whole_volumes(image: dict[str, Any]) -> None:
    made = template(**TLS, **TOKENS, **image)
    mounts = made["spec"]["containers"][0]["volumeMounts"]
    env = {each["name"]: each.get("value") for each in made["spec"]["containers"][0]["env"]}

    for volume, secret, path in (
        ("tls", "iris-tls", "/mnt/tls"),
        ("tokens", "iris-tokens", "/mnt/tokens"),
    ):
        assert {"name": volume, "secret": {"secretName": secret}} in made["spec"]["volumes"]
        assert {"name": volume, "mountPath": path, "readOnly": True} in mounts
    assert env["MOORAGE_TLS_CERTIFICATE"] == "/mnt/tls/tls.crt"
    assert env["MOORAGE_TLS_KEY"] == "/mnt/tls/tls.key"
    assert env["MOORAGE_TOKEN_FILE"] == "/mnt/tokens"
    assert references(made) >= {
        Reference(ReferenceKind.SECRET, "iris-tls"),
        Reference(ReferenceKind.SECRET, "iris-tokens"),
    }


def test_without_them_nothing_is_mounted() -> None:
    assert "MOORAGE_TLS_KEY" not in str(template())
    assert "/mnt/tokens" not in str(template())


def test_only_the_name_of_a_secret_changes_the_revision() -> None:
    first = revision_of(template(**TLS))

    assert revision_of(template(tls={"secretName": "iris-tls", "serverName": "a.b"})) == first
    assert revision_of(template(tls={"secretName": "renamed"})) != first


V2, LIVE, READY = "/v2/models/m/ready", "/v2/health/live", "/v2/health/ready"


@pytest.mark.parametrize(
    ("spec", "ready", "live"),
    [
        (TLS, V2, LIVE),
        ({**TLS, **GRPC}, V2, LIVE),
        ({**TLS, **GRPC, "protocol": "Auto"}, V2, LIVE),
        ({**TLS, **GRPC, **SERVER}, READY, LIVE),
        ({**TLS, **GRPC, **GRPS}, "/grps/v1/health/ready", "/grps/v1/health/live"),
        ({**TLS, **TFS}, "/v1/models/m/metadata", None),
        ({**TLS, **TFS, **TOKENS}, V2, LIVE),
        ({**TLS, **GRPS, **TOKENS}, "/grps/v1/health/ready", "/grps/v1/health/live"),
        ({**TLS, **OTHER}, V2, LIVE),
    ],
)
def test_the_kubelet_probes_with_tls(spec: dict[str, Any], ready: str, live: str | None) -> None:
    made = container(**spec, model={"name": "m"})

    for probe, path in (("startup", ready), ("readiness", ready), ("liveness", live)):
        found = made[f"{probe}Probe"]
        if path is None:
            assert found["tcpSocket"] == {"port": 8000}
        else:
            assert found["httpGet"] == {"path": path, "port": 8000, "scheme": "HTTPS"}


def test_tokens_alone_leave_the_probes_plain_and_on_open_paths() -> None:
    made = container(**TFS, **TOKENS, model={"name": "m"})

    assert made["readinessProbe"]["httpGet"] == {"path": V2, "port": 8000, "scheme": "HTTP"}
    assert container(**GRPC, **TOKENS)["readinessProbe"]["grpc"]["port"] == 8001


def test_another_image_over_grpc_with_tls_is_probed_by_its_open_port() -> None:
    made = template(**TLS, **GRPC, **OTHER)

    assert made["spec"]["containers"][0]["readinessProbe"]["tcpSocket"] == {"port": 8001}
    assert made["spec"]["readinessGates"] == [{"conditionType": "moorage.dev/model-ready"}]


def test_a_grps_server_of_another_image_is_set_offline_over_https() -> None:
    stop = container(**TLS, **GRPS, **OTHER)["lifecycle"]["preStop"]["httpGet"]

    assert stop["scheme"] == "HTTPS"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(TLS, ["https", "https"]), (TOKENS, ["http", "kubernetes.io/h2c"])],
)
def test_the_service_names_the_protocols(spec: dict[str, Any], expected: list[str]) -> None:
    ports = make_service(model(**spec))["spec"]["ports"]

    assert [port["appProtocol"] for port in ports] == expected


def test_urls_name_tls() -> None:
    urls = [each["url"] for each in endpoints.urls(model("iris", **TLS), CONFIG, None)]

    assert urls[0] == "https://iris.ns.svc.cluster.local:8000/v2/models/iris/infer"
    assert "grpcs://iris.ns.svc.cluster.local:8001" in urls
    assert {url.partition("://")[0] for url in urls} == {"https", "grpcs"}
