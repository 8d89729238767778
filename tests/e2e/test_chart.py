"""The chart as rendered by helm, and as installed in the cluster by `make demo`."""

import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml

from support.inference import in_url
from support.kubectl import Kubectl

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CHART = Path(__file__).resolve().parents[2] / "charts" / "moorage"
NAMESPACE = "moorage-system"


# helm built from its Go module assumes an old Kubernetes if it queries no cluster.
OFFLINE = ("--kube-version", "1.34")


def helm(demo, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["helm", "template", "moorage", str(CHART), "--namespace", NAMESPACE]
    command += ["--set", "image.registry=localhost", *words]
    return subprocess.run(command, env=demo.env, capture_output=True, text=True, check=False)


def rendered(demo, *words: str) -> dict[tuple[str, str], dict]:
    """The objects by kind and name."""
    done = helm(demo, "--validate", "--skip-tests", *words)
    assert done.returncode == 0, done.stderr
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


@pytest.fixture
def system(demo) -> Kubectl:
    """kubectl in the operator's namespace."""
    return Kubectl(demo.env, NAMESPACE)


def test_the_operator_keeps_to_the_restricted_profile(system):
    label = "pod-security.kubernetes.io/enforce=restricted"

    words = ("label", "namespace", NAMESPACE, label, "--overwrite", "--dry-run=server")
    said = system.run(*words, check=False)

    assert "Warning" not in said
    assert "labeled" in said


def test_the_metrics_service_answers(system):
    address = system.get("service", "moorage-metrics")["spec"]["clusterIP"]

    with urllib.request.urlopen(f"http://{in_url(address)}:8080/metrics", timeout=10) as answer:
        text = answer.read().decode()

    assert "moorage_polls_total" in text


def test_with_a_list_of_namespaces_the_operator_can_only_read_runtimes_elsewhere(demo):
    objects = rendered(demo, "--set", "watchNamespaces={team-a,team-b}")

    bindings = {name for kind, name in objects if kind == "ClusterRoleBinding"}
    text = helm(demo, *OFFLINE, "--set", "watchNamespaces={team-a,team-b}").stdout
    roles = {
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for item in yaml.safe_load_all(text)
        if item and item["kind"] == "Role"
    }
    container = objects["Deployment", "moorage"]["spec"]["template"]["spec"]["containers"][0]
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert bindings == {"moorage-runtimes"}
    elsewhere = objects["ClusterRole", "moorage-runtimes"]["rules"]
    assert {verb for rule in elsewhere for verb in rule["verbs"]} == {"list", "watch"}
    resources = {name for rule in elsewhere for name in rule["resources"]}
    assert resources == {"inferenceruntimes", "namespaces"}
    assert roles == {
        ("team-a", "moorage-operator"),
        ("team-b", "moorage-operator"),
        (NAMESPACE, "moorage-lease"),
    }
    assert env["MOORAGE_NAMESPACES"] == "team-a,team-b"


def test_the_chart_installs_the_crd_unless_disabled(demo):
    crd = ("CustomResourceDefinition", "inferencemodels.moorage.dev")

    kept = rendered(demo)[crd]["metadata"]["annotations"]

    assert kept == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in rendered(demo, "--set", "crds.keep=false")[crd]["metadata"]
    assert crd not in rendered(demo, "--set", "crds.install=false")


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("log.level=loud", "/log/level"),
        ("watchNamespaces={Team}", "/watchNamespaces/0"),
        ("image.runtime.pullPolicy=Sometimes", "/image/runtime/pullPolicy"),
        ("replicas=0", "/replicas"),
        ("colour=red", "colour"),
        ("metrics.port=99999", "/metrics/port"),
    ],
)
def test_an_invalid_value_is_rejected_by_name(demo, value, named):
    done = helm(demo, *OFFLINE, "--set", value)

    assert done.returncode != 0
    assert named in done.stderr
