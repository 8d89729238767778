"""Scaling of a model by the CPU of its pods, measured by the real metrics-server.

metrics-server runs as a process of this host, because the local cluster has none.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage_localcluster.layout import BRIDGE_ADDRESS
from support.api_extension import Extension, extended
from support.go_programs import program
from support.inference import in_url
from support.kubectl import KIND, Kubectl, find_condition
from support.manifests import digits, digits_files, sample
from support.traffic import Tally, traffic
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

MODULE = Path(__file__).parent / "metrics-server"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
METRICS = Extension("metrics-server", "kube-system", "metrics.k8s.io", "v1beta1", 20443)
# The clients cost a replica several times the target of 10m, also where the machine has little
# time for them; probes and polls cost some 2m.
SCALING = {
    "maxReplicas": 3,
    "metrics": [{"type": "CPU", "target": 50}],
    "scaleDownAfterSeconds": 5,
}
REQUESTS = {"requests": {"cpu": "20m"}}


@pytest.fixture(scope="module")
def metrics_server(demo: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The API group metrics.k8s.io, answered from the kubelet's measurements."""
    kubectl = Kubectl(demo.env, "kube-system")
    folder = tmp_path_factory.mktemp("metrics-server")
    config = demo.env["KUBECONFIG"]
    command = [
        program(MODULE, "sigs.k8s.io/metrics-server/cmd/metrics-server"),
        *(f"--{use}kubeconfig={config}" for use in ("", "authentication-", "authorization-")),
        f"--kubelet-certificate-authority={Path(config).parent / 'pki' / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-use-node-status-port",
        # the shortest that it takes, and less for a request than for a round
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
        f"--bind-address={BRIDGE_ADDRESS}",
        f"--secure-port={METRICS.port}",
        f"--cert-dir={folder}",
    ]
    with extended(kubectl, METRICS, command, folder / "log"):
        yield


@pytest.fixture
def scaled(kubectl: Kubectl, metrics_server: None) -> Kubectl:
    """A namespace in which the digits model serves with one replica and an autoscaler."""
    del metrics_server
    kubectl.apply(digits_files(), digits(scaling=SCALING, runtime={"resources": REQUESTS}))
    kubectl.wait_condition("digits", "Ready", "True", "Serving")
    kubectl.wait_condition("digits", "ScalingActive", "True", "AutoscalerActive", seconds=120)
    return kubectl


def clients(kubectl: Kubectl, **how: Any) -> Any:
    address = kubectl.get("service", "digits")["spec"]["clusterIP"]
    return traffic(f"http://{in_url(address)}:8000/v2/models/digits/infer", sample(3), **how)


def until_serving(kubectl: Kubectl, replicas: int) -> None:
    """Wait for the number of replicas, and check the status meanwhile."""

    def observe() -> str:
        model = kubectl.get(KIND, "digits")
        ready = find_condition(model, "Ready")
        assert ready["status"] == "True", ready
        summary = model["status"]["replicaSummary"]
        able, wanted = map(int, summary.split("/"))
        assert 1 <= able <= 3
        assert wanted in {model["spec"]["replicas"], model["status"]["replicas"]}, model
        return summary

    whole = f"{replicas}/{replicas}"
    eventually(whole, observe, lambda summary: summary == whole, 180)


def test_a_busy_model_grows_and_an_idle_one_shrinks_without_a_failed_request(
    scaled: Kubectl,
) -> None:
    with clients(scaled, pause_seconds=0.001) as busy:
        until_serving(scaled, 3)
    with clients(scaled, pause_seconds=0.25) as calm:
        until_serving(scaled, 1)

    assert_answered(busy, 300)
    assert_answered(calm, 20)
    autoscaler = scaled.get("hpa", "digits")["status"]
    assert autoscaler["desiredReplicas"] == 1
    assert scaled.condition("digits", "ScalingActive")["reason"] == "AutoscalerActive"


def test_the_autoscaler_of_the_example_works(kubectl: Kubectl, metrics_server: None) -> None:
    for example in ("01-digits", "16-autoscaling"):
        kubectl.run("apply", "-f", str(EXAMPLES / example / "inferencemodel.yaml"))

    kubectl.wait_condition("digits-scaled", "Ready", "True", "Serving")
    kubectl.wait_condition("digits-scaled", "ScalingActive", "True", seconds=180)

    autoscaler = kubectl.get("hpa", "digits-scaled")
    assert autoscaler["spec"]["maxReplicas"] == 4
    assert autoscaler["status"]["currentMetrics"]


def assert_answered(tally: Tally, least: int) -> None:
    assert tally.failures == []
    assert tally.answered > least
