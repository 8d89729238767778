"""Scaling of a model by the real KEDA with the runtime's own metric, from zero and back.

The API server, the HPA controller, KEDA's two programs, Prometheus, the operator and the runtime
are real; the kubelet is simulated. `make autoscalers` runs it.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from support import keda, prometheus
from support.held_model import INPUT, write_held
from support.operator_cluster import Api, Kubelet, OperatorProcess, eventually, model
from support.runtime import Runtime, serving

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        "AUTOSCALERS" not in os.environ, reason="KEDA builds for long: make autoscalers"
    ),
]

# KEDA looks every 30 seconds for whether to wake a model, the HPA controller every 15.
SECONDS = 120


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """The runtime with a model whose runs wait."""
    with serving(write_held(tmp_path, "iris"), "--threads=1") as made:
        yield made


def infer(runtime: Runtime) -> int:
    """The status of a request, without a timeout."""
    url = f"http://{runtime.http}/v2/models/iris/infer"
    return httpx.post(url, json=INPUT, timeout=4 * SECONDS).status_code


def test_the_real_keda_scales_a_model_by_its_requests_in_flight(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, runtime: Runtime, tmp_path: Path
) -> None:
    def condition(type_: str) -> str:
        for pod in kubelet.pods("iris"):
            if pod["status"].get("phase") == "Pending":
                kubelet.run(pod)
        return api.condition("iris", type_)[1]

    def summary() -> str:
        condition("Ready")
        return api.get("InferenceModel", "iris")["status"].get("replicaSummary", "")

    with prometheus.watching(prometheus.server(runtime.http), tmp_path) as address:
        in_flight = {
            "type": "Prometheus",
            "serverAddress": address,
            "query": 'sum(moorage_inferences_in_flight{model="iris"})',
            "target": 2,
        }
        scaling = {
            "minReplicas": 0,
            "maxReplicas": 3,
            "scaleDownAfterSeconds": 5,
            # Without metrics-server, the usage of the CPU stays unknown and decides nothing.
            "metrics": [in_flight, {"type": "CPU", "target": 100}],
        }
        ports = {"http": runtime.http_port, "grpc": runtime.grpc_port}
        api.apply(
            model("iris", runtime={"image": "example/server:1", "ports": ports}, scaling=scaling)
        )
        eventually("Ready", lambda: condition("Ready") == "Serving")
        assert condition("ScalingActive") == "AutoscalerMissing"

        with keda.installed(api, tmp_path):
            eventually(
                "KEDA has the model",
                lambda: condition("ScalingActive") == "AutoscalerActive",
                seconds=SECONDS,
            )
            eventually(
                "scaled to zero",
                lambda: condition("WorkloadAvailable") == "ScaledToZero",
                seconds=SECONDS,
            )
            with ThreadPoolExecutor(6) as clients:
                asked = [clients.submit(infer, runtime) for _ in range(6)]
                try:
                    eventually("three replicas", lambda: summary() == "3/3", seconds=2 * SECONDS)
                    assert condition("Ready") == "Serving"
                finally:
                    (tmp_path / "go").touch()
            assert [each.result() for each in asked] == [200] * 6
            eventually(
                "scaled to zero again",
                lambda: condition("WorkloadAvailable") == "ScaledToZero",
                seconds=2 * SECONDS,
            )
            api.delete("InferenceModel", "iris")
            eventually(
                "KEDA lets go", lambda: not Api(api.kubeconfig, api.namespace).list("ScaledObject")
            )
