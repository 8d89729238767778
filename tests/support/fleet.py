"""Models in every state, which a real operator reports on a control plane without nodes."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from support.gateway_api import crds
from support.iris import IMPATIENT
from support.operator_cluster import Api, Kubelet, ModelServer, OperatorProcess, eventually, model
from support.simulated_gateway import Gateway

NAMESPACE = "models"
ROUTES = "httproutes.gateway.networking.k8s.io"
STATES = {
    "failing": 2,
    "stuck": 1,
    "waiting": 1,
    "changing": 1,
    "serving": 3,
    "resting": 1,
}
"""How many models of the fleet are in each state of the page."""
CANARY = {
    "strategy": "Canary",
    "canary": {"steps": [{"weight": 20}, {"weight": 50, "pauseSeconds": 600}]},
}


class Fleet:
    """The models, their servers and their pods."""

    def __init__(self, kubeconfig: Path, operator: OperatorProcess) -> None:
        self.api = Api(kubeconfig, NAMESPACE)
        self.kubelet = Kubelet(self.api)
        self._operator = operator
        self._servers = ExitStack()
        self._ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.api.of("Namespace").create(body=body)
        (crd,) = crds("httproutes")
        if not self.api.get("CustomResourceDefinition", ROUTES):
            self.api.of("CustomResourceDefinition").create(body=crd)
        kind = 'kind="HTTPRoute"'
        eventually(
            "routes are watched",
            lambda: self._operator.metric("moorage_optional_kinds", kind) == 1,
            seconds=60,
        )
        self.api = Api(self.api.kubeconfig, NAMESPACE)  # a client keeps what it has discovered
        self.kubelet = Kubelet(self.api)
        self._create()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.api.list("InferenceModel"):
            self.api.delete("InferenceModel", each["metadata"]["name"])
        self.api.delete("CustomResourceDefinition", ROUTES)
        self._servers.close()

    def apply(self, name: str, version: int = 1, **spec: Any) -> None:
        """Write the spec of a model; its pods answer if it has a server."""
        image = f"registry.example.com/models/{name}:{version}"
        runtime: dict[str, Any] = {"image": image}
        if name in self._ports:
            runtime["ports"] = {"http": self._ports[name]}
        self.api.apply(model(name, runtime=runtime, health=IMPATIENT, **spec))

    def run_pods(self, name: str, version: int = 1, *, count: int = 1, ready: bool = True) -> None:
        """The pods of a version run."""
        for pod in self.pods(name, version, count):
            self.kubelet.run(pod, ready=ready)

    def pods(self, name: str, version: int = 1, count: int = 1) -> list[dict[str, Any]]:
        """The pods of a version, as soon as there are so many."""

        def found() -> list[dict[str, Any]]:
            alive = [
                each
                for each in self.kubelet.pods(name)
                if "deletionTimestamp" not in each["metadata"]
                and each["spec"]["containers"][0]["image"].endswith(f":{version}")
            ]
            return alive if len(alive) == count else []

        return eventually(f"{count} pods of {name}:{version}", found, seconds=60)

    def expect(self, name: str, type_: str, reason: str) -> None:
        """Wait for the reason of a condition."""
        eventually(
            f"{name} {reason}", lambda: self.api.condition(name, type_)[1] == reason, seconds=60
        )

    def _create(self) -> None:
        for name in ("iris", "digits", "forecast", "fraud-score", "ranking", "recommender"):
            server = self._servers.enter_context(ModelServer(name))
            self._ports[name] = server.port
            if name == "recommender":
                server.ready = False
                server.error = (
                    "model.onnx: opset 23 of domain ai.onnx is not supported; the newest "
                    "supported opset is 22"
                )
        self.apply("iris", replicas=2)
        self.apply("digits")
        self.apply("forecast")
        self.apply("fraud-score", rollout=CANARY, route={"parentRefs": [{"name": "web"}]})
        self.apply("ranking")
        self.apply("recommender")
        self.apply("churn", 7)
        self.apply("sentiment")
        self.apply("embeddings", suspend=True)
        self.run_pods("iris", count=2)
        for name in ("digits", "forecast", "fraud-score", "ranking"):
            self.run_pods(name)
        self.run_pods("recommender", ready=False)
        (pod,) = self.pods("churn", 7)
        denied = (
            'failed to pull image "registry.example.com/models/churn:7": pull access denied, '
            "repository does not exist or may require authorization"
        )
        self.kubelet.wait(pod, "ImagePullBackOff", denied)
        gateway = Gateway(self.api, "fraud-score")
        gateway.take(100)
        for name in ("digits", "fraud-score", "ranking"):
            self.expect(name, "UpToDate", "RolloutComplete")
        self._replace(gateway)
        self.expect("recommender", "Ready", "ModelLoadFailed")
        self.expect("churn", "Ready", "ImagePullBackOff")

    def _replace(self, gateway: Gateway) -> None:
        """A second version: one that serves, one that cannot start, and a canary."""
        self.apply("digits", 2)
        self.run_pods("digits", 2)
        self.apply("ranking", 2)
        (pod,) = self.pods("ranking", 2)
        invalid = "couldn't parse image name: invalid reference format"
        self.kubelet.wait(pod, "InvalidImageName", invalid)
        self.apply("fraud-score", 2, rollout=CANARY, route={"parentRefs": [{"name": "web"}]})
        self.run_pods("fraud-score", 2)
        gateway.take(80, 20)
        self.expect("fraud-score", "UpToDate", "AwaitingApproval")
        self.expect("ranking", "UpToDate", "RolledBack")
        self.expect("digits", "UpToDate", "RolloutComplete")
