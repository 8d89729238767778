"""A restore from a backup of objects: they come back without owners, field managers and status."""

from contextlib import suppress
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)

pytestmark = pytest.mark.integration

# A backup tool restores ReplicaSets first, and everything else in alphabetical order. API servers
# refuse pods whose spread constraints they have completed themselves.
KINDS = (
    "ReplicaSet",
    "ControllerRevision",
    "Deployment",
    "InferenceModel",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Service",
)
SELECTOR = "moorage.dev/model=iris"


def backup(api: Api) -> list[dict[str, Any]]:
    """All objects of the model as a backup tool writes them again."""
    found = [
        each for kind in KINDS if kind != "InferenceModel" for each in api.list(kind, SELECTOR)
    ]
    found.append(api.get("InferenceModel", "iris"))
    found.sort(key=lambda body: KINDS.index(body["kind"]))
    return [plain(each) for each in found]


def plain(body: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in body["metadata"].items()
        if key in {"name", "labels", "annotations"}
    }
    body = {**body, "metadata": kept}
    body.pop("status", None)
    if body["kind"] == "Service":
        body["spec"] = {
            key: value for key, value in body["spec"].items() if not key.startswith("clusterIP")
        }
    return body


def is_complete(api: Api, kubelet: Kubelet) -> bool:
    """Run new pods; whether the last edit is rolled out."""
    for pod in kubelet.pods("iris"):
        if not pod["status"].get("podIP"):
            with suppress(NotFoundError):  # a pod of a restored Deployment that was not needed
                kubelet.run(pod)
    return api.condition("iris", "UpToDate")[0] == "True"


@pytest.mark.parametrize("strategy", ["RollingUpdate", "BlueGreen"])
def test_a_model_and_its_children_serve_after_a_restore(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, strategy: str
) -> None:
    spec: dict[str, Any] = {
        "replicas": 2,
        "networkPolicy": {"from": []},
        "rollout": {"strategy": strategy},
    }
    for image in ("example/server:1", "example/server:2"):
        runtime = {"image": image, "ports": {"http": server.port}}
        api.apply(model("iris", runtime=runtime, **spec))
        eventually("the rollout is complete", lambda: is_complete(api, kubelet))
    saved = backup(api)
    api.delete("InferenceModel", "iris")
    eventually(
        "all are gone", lambda: not any(api.list(kind, SELECTOR) for kind in (*KINDS[:3], "Pod"))
    )

    for body in saved:
        with suppress(ConflictError):  # the operator was faster
            api.of(body["kind"]).create(body=body, namespace=api.namespace)

    eventually("complete again", lambda: is_complete(api, kubelet))
    assert api.condition("iris") == ("True", "Serving")
    uid = api.get("InferenceModel", "iris")["metadata"]["uid"]

    def unowned() -> list[tuple[str, str]]:
        return [
            (kind, each["metadata"]["name"])
            for kind in KINDS[1:]
            for each in api.list(kind, SELECTOR)
            if uid not in [owner["uid"] for owner in each["metadata"].get("ownerReferences", ())]
        ]

    eventually("all children have their owner", lambda: not unowned())
    eventually("two pods", lambda: len(kubelet.pods("iris")) == 2)

    # Later edits leave nothing of the restored objects behind.
    api.patch("InferenceModel", "iris", {"spec": {"replicas": 1, "networkPolicy": None}})
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        eventually(f"no {kind}", lambda kind=kind: not api.get(kind, "iris"))
    api.delete("InferenceModel", "iris")
    eventually(
        "nothing is left", lambda: not any(api.list(kind, SELECTOR) for kind in (*KINDS, "Pod"))
    )


def test_a_restored_revision_that_nobody_needs_is_deleted(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    def roll_out(image: str) -> None:
        runtime = {"image": image, "ports": {"http": server.port}}
        api.apply(model("iris", runtime=runtime))

    roll_out("example/server:1")
    eventually("the first revision serves", lambda: is_complete(api, kubelet))
    roll_out("example/server:2")
    (kept,) = eventually("a kept revision", lambda: api.list("ControllerRevision", SELECTOR))
    eventually("the second revision serves", lambda: is_complete(api, kubelet))
    eventually("nothing is kept", lambda: not api.list("ControllerRevision", SELECTOR))

    # Python's JSON has spaces. The API server stores them and leaves them out of each later patch,
    # which therefore changes the data that may not change.
    api.of("ControllerRevision").create(body=plain(kept), namespace=api.namespace)
    eventually("nothing is kept again", lambda: not api.list("ControllerRevision", SELECTOR))
    assert api.condition("iris") == ("True", "Serving")
