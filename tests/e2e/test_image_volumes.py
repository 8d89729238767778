"""Models in images that the node mounts as volumes: served, and refused as documented.

The registry is on the host's loopback, which the node reaches and pods do not.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage_localcluster.layout import BRIDGE_ADDRESS
from support.inference import infer
from support.kubectl import KIND, Kubectl
from support.manifests import DIGITS, inference_model, secret
from support.registry import Repository, oci_registry
from support.self_signed import self_signed, trusting
from support.tls_front import tls_front

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PODS = "moorage.dev/model=digits"
MODEL = (DIGITS / "model.onnx").read_bytes()
MOUNTED = "/mnt/models"
IMAGE, ARTIFACT = ":image?path=models/digits", ":artifact"
HAVE_A_LOOK = f"""
import pathlib
lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
(options,) = (line.split()[3] for line in lines if line.split()[1] == "{MOUNTED}")
assert "ro" in options.split(","), options
try:
    pathlib.Path("{MOUNTED}/models/digits/1/model.onnx").unlink()
except OSError as error:
    print(error.strerror)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    """`models/digits` with the model in a folder of `:image`, and in the artifact `:artifact`."""
    with oci_registry(tmp_path_factory.mktemp("oci")) as server:
        found = Repository(server, "models/digits")
        found.mountable_image("image", ("models/digits/1/model.onnx", MODEL))
        title = {"org.opencontainers.image.title": "1/model.onnx"}
        found.image("artifact", found.blob(MODEL, "application/octet-stream", **title))
        yield found


@pytest.fixture
def reached_by_pods(kubectl: Kubectl, repository: Repository, tmp_path: Path) -> Iterator[str]:
    """The repository's URI for pods, which need the Secret `store` to trust its certificate."""
    certificate = self_signed(tmp_path, BRIDGE_ADDRESS)
    kubectl.apply(secret("store", trusting(certificate)))
    with tls_front(certificate, BRIDGE_ADDRESS, repository.port) as port:
        yield f"oci://{BRIDGE_ADDRESS}:{port}/models/digits"


def model_at(uri: str, *, replicas: int = 1, **model: Any) -> dict[str, Any]:
    """The digits model from a registry."""
    spec = {"name": "digits", "uri": uri, **model}
    return inference_model("digits", model=spec, replicas=replicas, health={"periodSeconds": 1})


def pod_of(kubectl: Kubectl) -> dict[str, Any]:
    (pod,) = kubectl.items("pods", PODS)
    return pod["spec"]


def test_an_image_that_the_node_mounts_is_served_without_an_init_container(kubectl, repository):
    kubectl.apply(model_at(f"{repository.uri}{IMAGE}", imageVolume="Always"))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3
    assert "initContainers" not in pod_of(kubectl)
    said = kubectl.run("exec", "deployment/digits", "--", "python3", "-c", HAVE_A_LOOK)
    assert said == "Read-only file system\n"


def test_without_image_volumes_an_init_container_downloads_the_image(kubectl, reached_by_pods):
    key = {"secretName": "store"}
    kubectl.apply(model_at(f"{reached_by_pods}{IMAGE}", imageVolume="Never", credentials=key))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3
    assert [each["name"] for each in pod_of(kubectl)["initContainers"]] == ["fetch"]


@pytest.mark.expects_errors("no model file in the folder of model 'digits'")
def test_an_artifact_that_cannot_be_mounted_can_be_downloaded(
    kubectl, repository, reached_by_pods
):
    kubectl.apply(model_at(f"{repository.uri}{IMAGE}", imageVolume="Always"))
    kubectl.wait_condition("digits", "UpToDate", "True", seconds=120)

    kubectl.apply(model_at(f"{repository.uri}{ARTIFACT}", imageVolume="Always"))
    kubectl.wait_condition("digits", "UpToDate", "False", "RolledBack", seconds=120)

    rejected = kubectl.get(KIND, "digits")["status"]["revisions"]["rejected"]
    assert rejected["reason"] == "ModelLoadFailed"
    assert "no model file" in rejected["message"]
    kubectl.wait_condition("digits", "Ready", "True", "ServingPreviousRevision")
    assert infer(kubectl, "digits") == 3

    # the documented fix for the reason
    key = {"secretName": "store"}
    kubectl.apply(model_at(f"{reached_by_pods}{ARTIFACT}", imageVolume="Never", credentials=key))
    kubectl.wait_condition("digits", "UpToDate", "True", seconds=120)
    assert infer(kubectl, "digits") == 3


def test_auto_uses_an_init_container_with_an_older_kubelet(kubectl, repository):
    (node,) = kubectl.items("nodes")
    kubelet = node["status"]["nodeInfo"]["kubeletVersion"]
    assert kubelet.startswith("v1.34.")

    kubectl.apply(model_at(f"{repository.uri}{IMAGE}", replicas=0, imageVolume="Auto"))
    kubectl.wait_condition("digits", "WorkloadAvailable", "False", "ScaledToZero")

    template = kubectl.get("deployment", "digits")["spec"]["template"]["spec"]
    assert [each["name"] for each in template["initContainers"]] == ["fetch"]
    log = Kubectl(kubectl.env, "moorage-system").run("logs", "deployment/moorage")
    assert f"has kubelet {kubelet}, expected 1.35 or later" in log
