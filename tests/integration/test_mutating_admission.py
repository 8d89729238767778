"""Children that a mutating webhook changes while the operator writes them."""

from pathlib import Path
from typing import Any

import pytest

from support.mutating import mutating
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)

pytestmark = pytest.mark.integration


def iris(server: ModelServer, image: str = "example/server:1", **spec: Any) -> dict[str, Any]:
    return model("iris", runtime={"image": image, "ports": {"http": server.port}}, **spec)


def change_template(body: dict[str, Any]) -> None:
    """Change a Deployment in the ways that are common: one field of each kind."""
    template = body["spec"]["template"]
    pod = template["spec"]
    runtime = pod["containers"][0]
    for part in (body, template):
        part["metadata"].setdefault("labels", {})["team"] = "a"
    if not runtime["image"].startswith("mirror.example/"):
        runtime["image"] = "mirror.example/" + runtime["image"]
    amounts = {"cpu": "250m", "memory": "512Mi"}
    runtime["resources"] = {"requests": amounts, "limits": amounts}
    runtime["securityContext"] = {"runAsUser": 1234, "allowPrivilegeEscalation": False}
    runtime.pop("livenessProbe", None)
    pod["tolerations"] = [{"key": "pool", "operator": "Exists"}]
    if len(pod["containers"]) == 1:
        pod["containers"].append({"name": "agent", "image": "agent:1"})


def change_service(body: dict[str, Any]) -> None:
    body["metadata"].setdefault("annotations", {})["lb.example/internal"] = "true"
    body["spec"]["ports"][0]["appProtocol"] = "http"
    body["spec"]["sessionAffinity"] = "ClientIP"


def change_policy(body: dict[str, Any]) -> None:
    body["spec"]["ingress"] = [{"from": [{"namespaceSelector": {}}]}]


def relabel(body: dict[str, Any]) -> None:
    body["metadata"].setdefault("labels", {})["app.kubernetes.io/managed-by"] = "policy"


def change_any(body: dict[str, Any]) -> None:
    changes = {
        "Deployment": change_template,
        "Service": change_service,
        "NetworkPolicy": change_policy,
    }
    changes[body["kind"]](body)


def resize(size: int) -> Any:
    def change(body: dict[str, Any]) -> None:
        body["spec"]["replicas"] = size

    return change


def message_of(api: Api, type_: str) -> str:
    found = api.get("InferenceModel", "iris")["status"]["conditions"]
    return next(each["message"] for each in found if each["type"] == type_)


class Pods:
    """Starts each pod of the model once."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._started: set[str] = set()

    def run(self) -> int:
        """Start new pods; the number of pods."""
        pods = self._kubelet.pods("iris")
        for pod in pods:
            if pod["metadata"]["uid"] not in self._started:
                self._kubelet.run(pod)
                self._started.add(pod["metadata"]["uid"])
        return len(pods)


def finish(api: Api, pods: Pods) -> None:
    """Run all pods until the rollout is complete."""

    def is_complete() -> bool:
        pods.run()
        return api.condition("iris", "UpToDate") == ("True", "RolloutComplete")

    eventually("the rollout is complete", is_complete, seconds=30)


@pytest.mark.parametrize("strategy", ["RollingUpdate", "BlueGreen"])
def test_children_changed_by_a_webhook_are_rolled_out_and_not_written_again(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    tmp_path: Path,
    strategy: str,
) -> None:
    pods = Pods(kubelet)
    spec: dict[str, Any] = {"rollout": {"strategy": strategy}, "networkPolicy": {"from": []}}
    with mutating(api, tmp_path, change_any, "Deployment", "Service", "NetworkPolicy"):
        for image in ("example/server:1", "example/server:2"):
            api.apply(iris(server, image, **spec))
            finish(api, pods)
            assert api.condition("iris") == ("True", "Serving")
        deployments = api.list("Deployment", "moorage.dev/model=iris")
        images = [
            each["spec"]["template"]["spec"]["containers"][0]["image"] for each in deployments
        ]
        assert "mirror.example/example/server:2" in images

        # A new process knows nothing of earlier writes, and an edit makes it look again.
        operator.stop()
        operator.start()
        operator.wait_ready()
        for each in deployments:
            note = {"metadata": {"annotations": {"note": "by hand"}}}
            api.patch("Deployment", each["metadata"]["name"], note)
        api.apply(model("other"))

        def written() -> list[float]:
            kinds = ("Deployment", "Service", "NetworkPolicy")
            return [operator.metric("moorage_child_writes_total", f'kind="{k}"') for k in kinds]

        eventually("the other model's children", lambda: sum(written()) >= 2)
        assert written() == [1, 1, 0]
        assert api.condition("iris", "UpToDate") == ("True", "RolloutComplete")


def test_more_replicas_than_wanted_complete_the_rollout(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, tmp_path: Path
) -> None:
    pods = Pods(kubelet)
    with mutating(api, tmp_path, resize(2), "Deployment"):
        for image in ("example/server:1", "example/server:2"):
            api.apply(iris(server, image))
            finish(api, pods)
            assert pods.run() >= 2
            named = message_of(api, "UpToDate")
            assert 'spec.replicas of the Deployment "iris" from 1 to 2' in named
            assert api.condition("iris", "Reconciling") == ("", "")


def test_fewer_replicas_than_wanted_name_the_cause(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, tmp_path: Path
) -> None:
    pods = Pods(kubelet)
    with mutating(api, tmp_path, resize(1), "Deployment"):
        api.apply(iris(server, replicas=3))
        eventually("a pod", pods.run)
        eventually(
            "the replica serves",
            lambda: pods.run() and "1 of 3" in message_of(api, "UpToDate"),
        )
        assert 'spec.replicas of the Deployment "iris" from 3 to 1' in message_of(api, "UpToDate")
        assert "from 3 to 1" in message_of(api, "WorkloadAvailable")


@pytest.mark.parametrize("kind", ["Service", "Deployment"])
def test_a_changed_label_of_the_operator_is_refused_and_not_written_in_a_loop(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    tmp_path: Path,
    kind: str,
) -> None:
    pods = Pods(kubelet)
    with mutating(api, tmp_path, relabel, kind):
        api.apply(iris(server))
        refused = ("False", "ApplyRefused")
        eventually("refused", lambda: api.condition("iris", "Accepted") == refused)
        message = message_of(api, "Accepted")
        assert f'the {kind} "iris"' in message
        assert "label app.kubernetes.io/managed-by from 'moorage' to 'policy'" in message
        eventually("a pod", pods.run)

        # A new process does not see the child, because it watches by this label.
        operator.stop()
        operator.start()
        operator.wait_ready()
        for name in ("first", "second"):
            api.apply(model(name))
            eventually("refused", lambda name=name: api.condition(name, "Accepted") == refused)
        assert operator.metric("moorage_child_writes_total", f'kind="{kind}"') == 0

    complete = ("True", "RolloutComplete")
    eventually("accepted", lambda: api.condition("iris", "UpToDate") == complete, seconds=60)
