"""The page as the chart installs it: off by default, and without any rights."""

import pytest

from moorage_cli.command_line.arguments import parser
from support.chart import Objects, refusal, rendered

pytestmark = pytest.mark.integration

ON = ("--set", "page.enabled=true,networkPolicy.enabled=true")
DIGEST = "sha256:" + "0b" * 32


@pytest.fixture(scope="module")
def objects() -> Objects:
    return rendered(*ON)


def test_by_default_nothing_of_it_is_installed():
    assert [name for _, name in rendered() if "page" in name] == []


def test_it_adds_a_pod_a_service_and_a_policy_and_no_rights(objects: Objects):
    without = rendered("--set", "networkPolicy.enabled=true")

    assert set(objects) - set(without) == {
        ("Deployment", "moorage-page"),
        ("Service", "moorage-page"),
        ("NetworkPolicy", "moorage-page"),
    }
    assert {key: objects[key] for key in without} == without


def test_its_pod_has_no_token_and_cannot_change_anything(objects: Objects):
    pod = objects["Deployment", "moorage-page"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    sources = {each["name"]: each for each in pod["volumes"]}
    assert set(sources) == {"tmp", "api-server-ca"}
    assert sources["api-server-ca"]["configMap"]["name"] == "kube-root-ca.crt"


def test_service_and_policy_select_its_pod_only(objects: Objects):
    labels = objects["Deployment", "moorage-page"]["spec"]["template"]["metadata"]["labels"]
    operator = objects["Deployment", "moorage"]["spec"]["template"]["metadata"]["labels"]

    for selector in (
        objects["Deployment", "moorage-page"]["spec"]["selector"]["matchLabels"],
        objects["Service", "moorage-page"]["spec"]["selector"],
        objects["NetworkPolicy", "moorage-page"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
        assert not selector.items() <= operator.items()
    for selector in (
        objects["Service", "moorage-metrics"]["spec"]["selector"],
        objects["NetworkPolicy", "moorage"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert not selector.items() <= labels.items()


def test_its_policy_allows_only_the_api_server(objects: Objects):
    spec = objects["NetworkPolicy", "moorage-page"]["spec"]

    assert [port["port"] for rule in spec["egress"] for port in rule["ports"]] == [443, 6443]
    assert spec["ingress"] == [{"ports": [{"port": "http"}]}]


def test_its_image_has_the_registry_and_a_digest_takes_precedence():
    def image(*words: str) -> str:
        pod = rendered(*ON, *words)["Deployment", "moorage-page"]["spec"]["template"]["spec"]
        return pod["containers"][0]["image"]

    assert image() == "localhost/moorage-cli:0.1.0"
    assert image("--set", f"image.cli.digest={DIGEST}") == f"localhost/moorage-cli@{DIGEST}"


def test_its_program_has_the_arguments_that_the_chart_gives_it(objects: Objects):
    container = rendered(*ON, "--set", "listenAddress=::")["Deployment", "moorage-page"]
    (container,) = container["spec"]["template"]["spec"]["containers"]
    given = parser().parse_args(container["args"])

    assert (given.command, given.listen, given.port) == ("ui-server", "::", 8080)
    (port,) = container["ports"]
    assert port["containerPort"] == given.port
    mounts = [each["mountPath"] for each in container["volumeMounts"]]
    assert given.api_server_ca.rpartition("/")[0] in mounts


def test_values_of_the_operators_pod_that_concern_placement_apply_to_it():
    pod = rendered(
        *ON, "--set", "openshift=true,nodeSelector.a=b,image.pullSecrets[0].name=registry"
    )["Deployment", "moorage-page"]["spec"]["template"]["spec"]

    assert "runAsUser" not in pod["securityContext"]
    assert pod["nodeSelector"] == {"a": "b"}
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize("value", ["page.enabled=maybe", "page.port=0", "page.host=a"])
def test_an_invalid_value_is_rejected_by_name(value: str):
    assert "/page" in refusal("--set", f"image.registry=localhost,{value}")
