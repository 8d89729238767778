"""Image volumes on a real API server that supports them, with nodes of the relevant versions."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.operator_cluster import Api, OperatorProcess, eventually, model

pytestmark = pytest.mark.integration

IMAGE = "oci://registry.example/models/iris:1"


@pytest.fixture
def node(api: Api) -> Iterator[Callable[[str, str], None]]:
    """Creates nodes with given versions, and deletes them at the end."""
    nodes = api.of("Node")
    made: list[str] = []

    def make(kubelet: str, runtime: str) -> None:
        name = f"{api.namespace}-{len(made)}"
        nodes.create(body={"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        made.append(name)
        info = {
            **dict.fromkeys(("machineID", "systemUUID", "bootID", "kernelVersion", "osImage"), ""),
            "kubeProxyVersion": "",
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kubeletVersion": kubelet,
            "containerRuntimeVersion": runtime,
        }
        nodes.subresources["status"].patch(
            name=name,
            body={"status": {"nodeInfo": info}},
            content_type="application/merge-patch+json",
        )

    yield make
    for name in made:
        nodes.delete(name=name)


def pod_of(api: Api, name: str) -> dict[str, Any]:
    """The pod template of a model's Deployment."""
    return eventually(f"the Deployment {name}", lambda: api.get("Deployment", name))["spec"][
        "template"
    ]["spec"]


def restart(operator: OperatorProcess) -> None:
    """Support is detected when an operator starts."""
    operator.stop()
    operator.start()
    operator.wait_ready()


def test_images_are_volumes_once_all_nodes_support_them(
    operator: OperatorProcess, api: Api, node: Callable[[str, str], None]
) -> None:
    api.apply(model("before", model={"uri": IMAGE}))
    assert "initContainers" in pod_of(api, "before")
    eventually("the status is reported", lambda: api.condition("before")[0])

    node("v1.35.0", "containerd://2.1.4")
    restart(operator)
    api.apply(model("after", model={"uri": IMAGE}))
    api.apply(model("never", model={"uri": IMAGE, "imageVolume": "Never"}))

    mounted = pod_of(api, "after")
    image = {"reference": "registry.example/models/iris:1", "pullPolicy": "IfNotPresent"}
    assert {"name": "model", "image": image} in mounted["volumes"]
    assert "initContainers" not in mounted
    assert "initContainers" in pod_of(api, "never")
    # a template that changed with the cluster would restart every model
    before = api.get("Deployment", "before")
    assert before["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert "initContainers" in before["spec"]["template"]["spec"]

    node("v1.34.4", "containerd://1.6.20")
    restart(operator)
    api.apply(model("old-node", model={"uri": IMAGE}))
    assert "initContainers" in pod_of(api, "old-node")
    assert "has kubelet v1.34.4" in operator.logged(r'"why": "(.*)"')
