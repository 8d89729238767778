"""Pods that have only an IPv6 address: the operator queries the bundled runtime there."""

import json

import pytest

from support.operator_cluster import Api, Kubelet, OperatorProcess, eventually, model
from support.runtime import ROOT, running

pytestmark = pytest.mark.integration

DIGITS = ROOT / "examples" / "01-digits"
SAMPLE = json.loads((DIGITS / "samples" / "digit-3.json").read_text())


@pytest.mark.parametrize("transport", ["HTTP", "GRPC"])
def test_a_replica_with_an_ipv6_address_is_polled_and_tested(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, transport: str
) -> None:
    tests = [{"name": "three", "inputs": SAMPLE["inputs"]}]
    with running(f"--model-repository={DIGITS}", "--model-name=iris", host="::") as runtime:
        ports = {"http": runtime.http_port, "grpc": runtime.grpc_port}
        api.apply(
            model(
                "iris",
                runtime={"image": "example/server:1", "ports": ports},
                transport=transport,
                smokeTests={"tests": tests},
            )
        )
        (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
        kubelet.run(pod, ip="::1")

        eventually("it serves", lambda: api.condition("iris") == ("True", "Serving"))
        tested = ("True", "Passed")
        eventually("tested", lambda: api.condition("iris", "SmokeTestPassed") == tested)
        assert api.get("InferenceModel", "iris")["status"]["server"]["name"] == "moorage"
