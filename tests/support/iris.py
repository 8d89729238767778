"""Steps on the model `iris`, which most integration tests use."""

from typing import Any

from support.operator_cluster import Api, Kubelet, eventually, model

IMPATIENT = {"periodSeconds": 1, "failureThreshold": 1, "pollIntervalSeconds": 1}


def start(
    api: Api, kubelet: Kubelet, ports: dict[str, int], *, ready: bool = True, **spec: Any
) -> dict[str, Any]:
    """A model of another image whose one pod runs at these ports of this machine."""
    api.apply(model("iris", runtime={"image": "example/server:1", "ports": ports}, **spec))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod, ready=ready)
    return pod


def alive(kubelet: Kubelet) -> list[dict[str, Any]]:
    """The pods that are not being deleted."""
    return [pod for pod in kubelet.pods("iris") if "deletionTimestamp" not in pod["metadata"]]


def image_of(pod: dict[str, Any]) -> str:
    """The image of a pod's first container."""
    return pod["spec"]["containers"][0]["image"]


def pod_of(kubelet: Kubelet, image: str) -> dict[str, Any]:
    """Wait for the pod with an image."""
    return eventually(
        f"a pod of {image}", lambda: [each for each in alive(kubelet) if image_of(each) == image]
    )[0]


def gate(kubelet: Kubelet, field: str = "status") -> str:
    """A field of the only pod's readiness gate, "" if it is unset."""
    (pod,) = kubelet.pods("iris")
    conditions = pod["status"].get("conditions", [])
    found = [each[field] for each in conditions if each["type"] == "moorage.dev/model-ready"]
    return found[0] if found else ""


def message(api: Api, type_: str = "Ready") -> str:
    """The message of a condition, "" if it is absent."""
    conditions = api.get("InferenceModel", "iris").get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == type_), "")


def expect_condition(api: Api, type_: str, status: str, reason: str) -> str:
    """Wait for the condition and return its message."""
    eventually(f"{type_} {reason}", lambda: api.condition("iris", type_) == (status, reason))
    return message(api, type_)
