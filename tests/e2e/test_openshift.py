"""The chart with `openshift=true`, and models, under OpenShift's restricted-v2 on real pods.

A webhook takes the part of the constraint: it gives every pod a user that its image does not have,
in group 0. The volume of the claim gets the pod's group, unlike a hostPath.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from moorage_localcluster.layout import BRIDGE_ADDRESS, NODE_NAME
from support.definitions import installed
from support.inference import ask, infer
from support.installation import NAMESPACE, shell
from support.kubectl import Kubectl
from support.manifests import DIGITS, config_map, digits, digits_files, inference_model, secret
from support.openshift import CONSTRAINTS, LABEL, USER, restricting
from support.s3_server import s3_server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PYTHON_MODEL = ROOT / "examples" / "07-python-model"
MOORAGE = Path(sys.executable).parent / "moorage"
INSTALL = (
    f"helm install moorage charts/moorage -f build/demo/values.yaml --set openshift=true "
    f"--namespace {NAMESPACE} --wait --timeout 3m"
)
# Printed by a pod: its user and group.
WHO = "import os; print(os.getuid(), os.getgid())"


@pytest.fixture
def openshift(own_cluster, tmp_path):
    """A cluster like OpenShift, with the chart installed as its page says."""
    cluster = Kubectl(own_cluster, "default")
    cluster.run("create", "namespace", NAMESPACE)
    cluster.run("label", "namespace", NAMESPACE, f"{LABEL}=true")
    with restricting(cluster, tmp_path), installed(cluster, [CONSTRAINTS]):
        shell(INSTALL, own_cluster)
        yield own_cluster


@pytest.fixture
def volume(kubectl, tmp_path):
    """A volume of the node for the claim `store`, which has the group of the pods that use it."""
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o700)
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    cluster, name = Kubectl(kubectl.env, "default"), f"upload-{kubectl.namespace}"
    node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME]}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "storageClassName": "",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": kubectl.namespace, "name": "store"},
                "local": {"path": str(folder)},
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}
                },
            },
        }
    )
    yield folder
    cluster.run("delete", "pv", name, "--wait=false")


def python_model() -> list[dict]:
    """The Python model of the examples, which the server loads from a folder of code."""
    files = {each.name: each.read_bytes() for each in (PYTHON_MODEL / "model").iterdir()}
    (resource,) = yaml.safe_load_all((PYTHON_MODEL / "inferencemodel.yaml").read_text())
    return [config_map("digit-reader", files), resource]


def user_of(kubectl: Kubectl, name: str) -> str:
    return kubectl.run("exec", f"deployment/{name}", "--", "python3", "-c", WHO).strip()


def test_pods_with_a_user_of_the_namespace_serve_models_of_every_source(
    openshift, kubectl, volume, tmp_path
):
    kubectl.run("label", "namespace", kubectl.namespace, f"{LABEL}=true")
    assert user_of(Kubectl(openshift, NAMESPACE), "moorage") == f"{USER} 0"
    said = shell(f"helm test moorage --namespace {NAMESPACE}", openshift)
    assert "Phase:          Succeeded" in said

    kubectl.apply(digits_files(), digits(), *python_model())
    kubectl.wait_condition("digits", "Ready", "True", "Serving", 180)
    assert infer(kubectl, "digits") == 3
    assert user_of(kubectl, "digits") == f"{USER} 0"
    kubectl.wait_condition("digit-reader", "Ready", "True", "Serving", 180)
    request = json.loads((PYTHON_MODEL / "request.json").read_text())
    assert ask(kubectl, "digit-reader", request)["outputs"]

    with s3_server(tmp_path, BRIDGE_ADDRESS) as server:
        server.put("models/digits/1/model.onnx", (DIGITS / "model.onnx").read_bytes())
        spec = {
            "name": "digits",
            "uri": "s3://models/digits",
            "credentials": {"secretName": "store"},
        }
        kubectl.apply(secret("store", server.secret), inference_model("fetched", model=spec))
        kubectl.wait_condition("fetched", "Ready", "True", "Serving", 180)

    words = ("deploy", DIGITS / "model.onnx", "--name=uploaded", "--claim=store")
    done = subprocess.run(
        [MOORAGE, *words, "--storage-class=", "--size=100Mi", "-n", kubectl.namespace],
        env={**os.environ, **openshift},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "uploaded and verified" in done.stderr
    assert infer(kubectl, "uploaded") == 3
