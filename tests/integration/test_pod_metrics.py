"""Scaling of a model by a metric of its pods, through a real custom metrics API.

The API server, the HPA controller, the adapter, Prometheus, the operator and one runtime per pod
are real. The kubelet and the service discovery of Prometheus are simulated. Prometheus and
prometheus-adapter use the configuration from the documentation. `make autoscalers` runs it.
"""

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from support import custom_metrics, prometheus
from support.go_programs import ROOT
from support.held_model import INPUT, write_held
from support.listening import free_port
from support.operator_cluster import Api, Kubelet, OperatorProcess, eventually, model
from support.runtime import serving

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        "AUTOSCALERS" not in os.environ, reason="the adapter has to be built: make autoscalers"
    ),
]

PAGE = ROOT / "docs" / "how-to" / "scaling.md"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Each pod has its own address and the same ports.
ADDRESSES = ("127.0.0.11", "127.0.0.12", "127.0.0.13")
# The HPA controller looks every 15 seconds, and for new kinds of metrics every 30.
SECONDS = 120
SCALING = {
    "maxReplicas": 3,
    "metrics": [{"type": "Pods", "name": "moorage_inferences_in_flight", "target": 2}],
    "scaleDownAfterSeconds": 5,
}


def on_the_page(key: str) -> dict[str, Any]:
    """The block of the page that starts with the key."""
    blocks = [yaml.safe_load(block[1]) for block in BLOCK.finditer(PAGE.read_text())]
    return next(block for block in blocks if key in block)


@dataclass(frozen=True)
class Servers:
    """A runtime at each address, on the same ports, with a model whose runs wait for `go`."""

    go: Path
    ports: dict[str, int]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    repository = write_held(tmp_path, "iris")
    ports = {"http": free_port(ADDRESSES[0]), "grpc": free_port(ADDRESSES[1])}
    options = [*(f"--{use}-port={port}" for use, port in ports.items()), "--threads=1"]
    with ExitStack() as running:
        for address in ADDRESSES:
            running.enter_context(serving(repository, *options, host=address))
        yield Servers(tmp_path / "go", ports)


@dataclass(frozen=True)
class Seen:
    """The model from its user's view, with a simulated kubelet.

    Attributes:
        targets: File of what Prometheus would discover.
    """

    api: Api
    kubelet: Kubelet
    targets: Path

    def condition(self, type_: str) -> str:
        pods = self.kubelet.pods("iris")
        written = self.targets.with_suffix(".new")
        written.write_text(json.dumps(prometheus.found(pods)))
        written.replace(self.targets)
        used = {pod["status"].get("podIP") for pod in pods}
        free = [address for address in ADDRESSES if address not in used]
        for pod in pods:
            if pod["status"].get("phase") == "Pending":
                self.kubelet.run(pod, free.pop(0))
        return self.api.condition("iris", type_)[1]

    def summary(self) -> str:
        self.condition("Ready")
        return self.api.get("InferenceModel", "iris")["status"].get("replicaSummary", "")

    def measured(self) -> tuple[str, int]:
        """The autoscaler's value per pod and its number of pods."""
        status = self.api.get("HorizontalPodAutoscaler", "iris")["status"]
        (metric,) = status["currentMetrics"]
        return metric["pods"]["current"]["averageValue"], status["desiredReplicas"]


def infer(address: str, port: int) -> int:
    """The status of a request, without a timeout."""
    url = f"http://{address}:{port}/v2/models/iris/infer"
    return httpx.post(url, json=INPUT, timeout=4 * SECONDS).status_code


@pytest.mark.parametrize("adapter", [custom_metrics.OURS, custom_metrics.PROMETHEUS_ADAPTER])
def test_a_metric_of_the_pods_scales_a_model_up_and_down(
    adapter: str,
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    servers: Servers,
    tmp_path: Path,
) -> None:
    seen = Seen(api, kubelet, tmp_path / "targets.json")
    (scrape,) = on_the_page("scrape_configs")["scrape_configs"]
    assert scrape.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    scrape["file_sd_configs"] = [{"files": [str(seen.targets)], "refresh_interval": "1s"}]
    runtime = {"image": "example/server:1", "ports": servers.ports}
    api.apply(model("iris", runtime=runtime, scaling=SCALING))
    eventually("Ready", lambda: seen.condition("Ready") == "Serving")
    eventually(
        "nothing serves the metric",
        lambda: seen.condition("ScalingActive") == "AutoscalerFailing",
        seconds=SECONDS,
    )

    with (
        prometheus.watching(scrape, tmp_path) as url,
        custom_metrics.answered_by(adapter, api, url, on_the_page("rules"), tmp_path),
    ):
        eventually(
            "it is measured",
            lambda: seen.condition("ScalingActive") == "AutoscalerActive",
            seconds=SECONDS,
        )
        assert seen.measured() == ("0", 1)
        (pod,) = kubelet.pods("iris")
        busy = pod["status"]["podIP"]
        with ThreadPoolExecutor(4) as clients:
            asked = [clients.submit(infer, busy, servers.ports["http"]) for _ in range(4)]
            try:
                eventually("four ask", lambda: seen.summary() == "2/2", seconds=SECONDS)
                # four of one pod and none of the other: no third is needed
                eventually("two", lambda: seen.measured() == ("2", 2), seconds=SECONDS)
                assert seen.condition("Ready") == "Serving"
            finally:
                servers.go.touch()
        assert [each.result() for each in asked] == [200] * 4
        eventually("one replica", lambda: seen.summary() == "1/1", seconds=SECONDS)
        assert seen.condition("ScalingActive") == "AutoscalerActive"
