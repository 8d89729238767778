"""The chart under other names, accounts, platforms and parents, as rendered by helm."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_cli.commands.deploy_claim import OPERATOR_SELECTOR
from support.chart import refusal, rendered, template
from support.chart_rights import CHART, NAMESPACE, PROGRAMS

pytestmark = pytest.mark.integration

EVERYTHING = (
    *("--set", "image.registry=localhost,replicas=2,networkPolicy.enabled=true"),
    *("--set", "metrics.dashboard.enabled=true,admissionPolicy.mode=deny,rbac.secretHints=true"),
)


def pods_of(objects: dict[tuple[str, str], dict]) -> list[dict[str, Any]]:
    """The pod of the operator and that of `helm test`."""
    (deployment,) = (item for (kind, _), item in objects.items() if kind == "Deployment")
    (test,) = (item for (kind, _), item in objects.items() if kind == "Pod")
    return [deployment["spec"]["template"]["spec"], test["spec"]]


def accounts_of(objects: dict[tuple[str, str], dict]) -> set[str]:
    """The service accounts that the roles are bound to."""
    return {
        subject["name"]
        for (kind, _), item in objects.items()
        if kind in ("RoleBinding", "ClusterRoleBinding")
        for subject in item["subjects"]
    }


def test_a_full_name_replaces_the_releases_name_in_every_object():
    objects = rendered(*EVERYTHING, "--set", "fullnameOverride=serving")

    names = {name for kind, name in objects if kind != "CustomResourceDefinition"}
    container = objects["Deployment", "serving"]["spec"]["template"]["spec"]["containers"][0]
    lease = next(item for item in container["env"] if item["name"] == "MOORAGE_LEASE_NAME")
    assert [name for name in names if not name.startswith("serving")] == []
    assert accounts_of(objects) == {"serving"}
    assert lease["value"] == "serving-operator"
    rules = objects["Role", "serving-lease"]["rules"]
    assert [rule.get("resourceNames") for rule in rules] == [None, ["serving-operator"]]


def test_every_selector_follows_a_name_label():
    objects = rendered(*EVERYTHING, "--set", "nameOverride=serving")

    label = {"app.kubernetes.io/name": "serving", "app.kubernetes.io/instance": "moorage"}
    pod = objects["Deployment", "moorage"]["spec"]["template"]["metadata"]["labels"]
    assert pod.items() >= label.items()
    assert objects["Deployment", "moorage"]["spec"]["selector"]["matchLabels"] == label
    assert objects["Service", "moorage-metrics"]["spec"]["selector"] == label
    assert objects["PodDisruptionBudget", "moorage"]["spec"]["selector"]["matchLabels"] == label
    assert objects["NetworkPolicy", "moorage"]["spec"]["podSelector"]["matchLabels"] == label


@pytest.mark.parametrize(
    ("words", "name"), [((), "moorage"), (("nameOverride=serving",), "serving")]
)
def test_the_operator_knows_its_name_label(words: tuple[str, ...], name: str):
    objects = rendered(*(each for word in words for each in ("--set", word)))

    template = objects["Deployment", "moorage"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    told = next(item for item in container["env"] if item["name"] == "MOORAGE_NAME_LABEL")
    assert told["value"] == template["metadata"]["labels"]["app.kubernetes.io/name"] == name


def test_the_command_finds_an_operator_with_any_name():
    deployment = rendered("--set", "nameOverride=serving")["Deployment", "moorage"]

    name, _, value = OPERATOR_SELECTOR.partition("=")
    assert deployment["metadata"]["labels"][name] == value


def texts_of(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a manifest that has to be a text, with its field: names and labels."""
    if isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, dict):
        is_text = name in ("labels", "annotations", "matchLabels", "nodeSelector")
        for key, item in value.items():
            is_name = key in ("name", "namespace") or key.endswith(("Name", "secret"))
            if is_text or (is_name and not isinstance(item, dict)):
                yield key, item
            yield from texts_of(item, key)


def test_names_of_digits_stay_texts():
    """YAML reads them as numbers, and `on` as true, which the API server refuses."""
    objects = rendered(
        *EVERYTHING,
        *("--set", "crds.install=false,page.enabled=true,metrics.podMonitor.enabled=true"),
        *("--set", "metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true"),
        *("--set-string", "fullnameOverride=on,nameOverride=456,priorityClassName=1"),
        *("--set-string", "watchNamespaces={789},modelCAs.configMap=12,nodeSelector.pool=3"),
        *("--namespace", "2026"),
    )

    odd = {
        pair for each in objects.values() for pair in texts_of(each) if type(pair[1]) is not str
    }
    assert ("Deployment", "on") in objects
    assert odd == set()


def test_the_pod_of_the_test_is_not_behind_the_metrics_service():
    objects = rendered()

    selector = objects["Service", "moorage-metrics"]["spec"]["selector"]
    labels = objects["Pod", "moorage-test"]["metadata"]["labels"]
    assert not selector.items() <= labels.items()


@pytest.mark.parametrize(
    ("words", "created", "used"),
    [
        ("create=true", {"moorage"}, "moorage"),
        ("create=true,serviceAccount.name=op", {"op"}, "op"),
        ("create=false,serviceAccount.name=op", set(), "op"),
        ("create=false", set(), "default"),
    ],
)
def test_the_roles_are_bound_to_the_account_of_the_pods(words, created, used):
    objects = rendered("--set", f"serviceAccount.{words}")

    assert {name for kind, name in objects if kind == "ServiceAccount"} == created
    assert accounts_of(objects) == {used}
    assert {pod["serviceAccountName"] for pod in pods_of(objects)} == {used}


def test_on_openshift_no_pod_asks_for_a_user_and_all_stay_restricted():
    for pod in pods_of(rendered("--set", "openshift=true")):
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_elsewhere_every_pod_runs_as_the_images_user():
    for pod in pods_of(rendered()):
        assert pod["securityContext"]["runAsUser"] == 65532


def test_the_listen_address_reaches_the_operator():
    pod, _ = pods_of(rendered("--set", "listenAddress=::"))

    env = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
    assert env["MOORAGE_HEALTH_HOST"] == "::"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("fullnameOverride=Serving", "/fullnameOverride"),
        ("fullnameOverride=9models", "/fullnameOverride"),
        ("nameOverride=a_b", "/nameOverride"),
        ("listenAddress=everywhere", "/listenAddress"),
        ("openshift=maybe", "/openshift"),
        ("serviceAccount.name=A", "/serviceAccount/name"),
    ],
)
def test_an_invalid_value_is_rejected_by_name(value, named):
    assert named in refusal("--set", f"image.registry=localhost,{value}")


@pytest.mark.parametrize("release", ["team.models", "9models"])
def test_a_release_name_that_no_service_can_have_requires_a_full_name(release):
    words = ("--set", "image.registry=localhost")

    said = refusal(*words, release=release)
    assert f"the release name {release} cannot begin the name of a Service" in said
    done = template(*words, "--set", "fullnameOverride=models", release=release)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("label", ["app.kubernetes.io/name", "helm.sh/chart"])
def test_a_label_of_the_chart_is_no_label_of_pods(label):
    words = ("--set", "image.registry=localhost", "--set-json")

    said = refusal(*words, f'podLabels={{"{label}":"x"}}')
    assert f"podLabels: {label} is a label of the chart: remove it" in said


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A chart of another team that contains this one."""
    chart = {
        "apiVersion": "v2",
        "name": "platform",
        "version": "1.0.0",
        "dependencies": [
            {
                "name": "moorage",
                "version": "0.1.0",
                "repository": f"file://{CHART}",
                "condition": "moorage.enabled",
            }
        ],
    }
    values = {
        "global": {"imageRegistry": "registry.example.com/team"},
        "moorage": {"enabled": True, "fullnameOverride": "moorage"},
    }
    folder = tmp_path / "platform"
    folder.mkdir()
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    subprocess.run(
        [PROGRAMS / "helm", "dependency", "build", folder], check=True, capture_output=True
    )
    return folder


def test_a_parent_chart_enables_it_and_sets_the_registry_for_all(parent: Path):
    done = template(chart=parent)

    assert done.returncode == 0, done.stderr
    assert "image: registry.example.com/team/moorage-operator:0.1.0" in done.stdout
    assert template("--set", "moorage.enabled=false", chart=parent).stdout.strip() == ""


def test_its_own_registry_takes_precedence_over_the_parents(parent: Path):
    done = template("--set", "moorage.image.registry=localhost", chart=parent)

    assert "image: localhost/moorage-operator:0.1.0" in done.stdout


@pytest.mark.parametrize("chart", ["moorage", "moorage-runtimes"])
def test_helm_lint_finds_nothing(chart: str):
    command = [PROGRAMS / "helm", "lint", "--strict", "--kube-version", "1.34"]
    command += ["--namespace", NAMESPACE, CHART.parent / chart]
    registry = ["--set", "image.registry=localhost"] if chart == "moorage" else []

    done = subprocess.run([*command, *registry], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
