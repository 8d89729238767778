"""NetworkPolicies of models and of the chart, with real enforcement.

The local cluster enforces none, so an agent of the tests does. With KUBE_ROUTER=PROGRAM,
kube-router is used instead, which needs iptables and ipset.
"""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_localcluster.layout import API_SERVICE_ADDRESS, BRIDGE_ADDRESS, NODE_NAME, Ports
from support.api_extension import process
from support.askers import asker, image_of, wait_seen
from support.kubectl import Kubectl
from support.manifests import digits, digits_files

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
OPERATOR_NAMESPACE = "moorage-system"
SHOP, WEB = {"app": "shop"}, {"team": "web"}
POLICY = {
    "from": [
        {"podSelector": {"matchLabels": SHOP}},
        {"namespaceSelector": {"matchLabels": WEB}},
    ]
}


def agent(config: str) -> list[str]:
    """The command that enforces policies."""
    router = os.environ.get("KUBE_ROUTER")
    if not router:
        return [sys.executable, "-m", "support.policy_agent"]
    only = ["--run-firewall=true", "--run-router=false", "--run-service-proxy=false"]
    return [
        router,
        *only,
        f"--kubeconfig={config}",
        f"--hostname-override={NODE_NAME}",
        "--health-port=0",
    ]


@pytest.fixture(scope="module")
def enforced(demo: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Policies of all namespaces are enforced while the module's tests run."""
    log = tmp_path_factory.mktemp("agent") / "log"
    environment = {**demo.env, "PYTHONPATH": str(ROOT / "tests"), "NODE_NAME": NODE_NAME}
    with process(agent(demo.env["KUBECONFIG"]), log, environment):
        yield


@pytest.fixture
def elsewhere(demo: Any) -> Iterator[Kubectl]:
    """A namespace with the labels of the policy."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    cluster = Kubectl(demo.env, "default")
    cluster.run("create", "namespace", namespace)
    cluster.run("label", "namespace", namespace, *(f"{key}={WEB[key]}" for key in WEB))
    yield Kubectl(demo.env, namespace)
    cluster.run("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def served(kubectl: Kubectl, enforced: None) -> Kubectl:
    """A namespace in which the digits model serves."""
    del enforced
    kubectl.apply(digits_files(), digits())
    kubectl.wait_condition("digits", "Ready", "True", "Serving")
    return kubectl


def address(kubectl: Kubectl) -> str:
    return f"{kubectl.get('service', 'digits')['spec']['clusterIP']}:8000"


def test_a_model_answers_only_its_peers_and_the_operator(
    served: Kubectl, elsewhere: Kubectl, default: Kubectl
) -> None:
    image, model = image_of(served, "digits"), address(served)
    served.apply(
        asker("peer", image, model, labels=SHOP), asker("stranger", image, model, labels={})
    )
    elsewhere.apply(asker("peer", image, model, labels={}))
    # a peer's label only counts in the model's namespace
    default.apply(asker("stranger", image, model, labels=SHOP))
    everybody = [
        (served, "peer"),
        (elsewhere, "peer"),
        (served, "stranger"),
        (default, "stranger"),
    ]
    try:
        for where, name in everybody:
            wait_seen(where, name, "open")

        served.apply(digits(networkPolicy=POLICY))
        for where, name in everybody:
            wait_seen(where, name, "open" if name == "peer" else "shut")

        # A new pod is Ready only when the operator, too, has had its answers.
        served.run("delete", "pods", "-l", "moorage.dev/model=digits")
        served.wait_condition("digits", "Ready", "True", "Serving", seconds=90)
        for where, name in everybody:
            wait_seen(where, name, "open" if name == "peer" else "shut")

        served.apply(digits(networkPolicy={"from": []}))
        wait_seen(served, "peer", "shut")
        served.run("delete", "pods", "-l", "moorage.dev/model=digits")
        served.wait_condition("digits", "Ready", "True", "Serving", seconds=90)
    finally:
        default.run("delete", "pod", "stranger", "--ignore-not-found", "--wait=false")


@pytest.fixture
def confined(demo: Any, enforced: None) -> Iterator[Kubectl]:
    """The operator under the chart's policy."""
    del enforced
    ports = f"{{443,{Ports().api}}}"
    text = subprocess.run(
        [
            *("helm", "template", "moorage", str(ROOT / "charts" / "moorage")),
            *("--kube-version", "1.34", "--show-only", "templates/networkpolicy.yaml"),
            *("--namespace", OPERATOR_NAMESPACE, "--set", "networkPolicy.enabled=true"),
            *("--set", "image.registry=localhost"),
            *("--set", f"networkPolicy.apiServerPorts={ports}"),
        ],
        env=demo.env,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    system = Kubectl(demo.env, OPERATOR_NAMESPACE)
    system.apply(yaml.safe_load(text))
    try:
        yield system
    finally:
        system.run("delete", "networkpolicy", "moorage")


def test_the_example_admits_only_the_pods_with_its_label(kubectl: Kubectl, enforced: None) -> None:
    for example in ("01-digits", "21-network-policy"):
        kubectl.run("apply", "-f", str(ROOT / "examples" / example / "inferencemodel.yaml"))
    # Ready says that the operator is admitted
    kubectl.wait_condition("digits-private", "Ready", "True", "Serving")
    image = image_of(kubectl, "digits-private")
    model = f"{kubectl.get('service', 'digits-private')['spec']['clusterIP']}:8000"

    kubectl.apply(
        asker("shop", image, model, labels=SHOP), asker("other", image, model, labels={})
    )

    wait_seen(kubectl, "shop", "open")
    wait_seen(kubectl, "other", "shut")


def test_the_operator_works_under_the_charts_policy_and_reaches_nothing_else(
    served: Kubectl, confined: Kubectl
) -> None:
    # A pod with the operator's labels, for what the operator itself never tries.
    operator = confined.items("pods", "app.kubernetes.io/name=moorage")[0]
    labels = {
        key: value
        for key, value in operator["metadata"]["labels"].items()
        if key.startswith("app.kubernetes.io/")
    }
    tried = [address(served), f"{API_SERVICE_ADDRESS}:443", f"{BRIDGE_ADDRESS}:{Ports().kubelet}"]
    confined.apply(asker("alike", image_of(served, "digits"), *tried, labels=labels))
    try:
        wait_seen(confined, "alike", "open", "open", "shut")

        served.apply(digits(replicas=2, networkPolicy=POLICY))
        served.wait_condition("digits", "UpToDate", "True", seconds=120)
        assert served.row("digits")["REPLICAS"] == "2/2"
    finally:
        confined.run("delete", "pod", "alike", "--wait=false")
