"""`moorage deploy` and the everyday verbs on the real cluster, and what they print."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.kubectl import KIND, Kubectl
from support.manifests import DIGITS
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MOORAGE = Path(sys.executable).parent / "moorage"
COMMAND = re.compile(r"^ +((?:kubectl|curl) .*)$", re.MULTILINE)


@pytest.fixture
def moorage(kubectl):
    """Runs the tool in the test's namespace; returns status, output and errors."""

    def run(*arguments, text=None):
        done = subprocess.run(
            [MOORAGE, *arguments, "-n", kubectl.namespace],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, **kubectl.env},
            input=text,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def volume(kubectl, tmp_path):
    """A writable volume of the node for the first claim of the test's namespace."""
    folder = tmp_path / "volume"
    folder.mkdir()
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    folder.chmod(0o777)  # hostPath ignores fsGroup
    cluster, name = Kubectl(kubectl.env, "default"), f"upload-{kubectl.namespace}"
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
                "hostPath": {"path": str(folder), "type": "Directory"},
            },
        }
    )
    yield folder
    cluster.run("delete", "pv", name, "--wait=false")


def large_model(path, value):
    """An ONNX file of more than a mebibyte that adds a constant to each of its numbers."""
    weights = np.full((300_000,), value, dtype=np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0),
            helper.make_node("Add", ["x", "m"], ["y"]),
        ],
        "adds",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    onnx.checker.check_model(str(path))


@contextlib.contextmanager
def forwarded(kubectl, command, port):
    """The printed port-forward while it listens."""
    process = subprocess.Popen(
        ["sh", "-c", f"exec {command}"],
        env={**os.environ, **kubectl.env},
        stdout=subprocess.DEVNULL,
    )
    try:
        eventually("the port is forwarded", lambda: is_open(port), bool, 60)
        yield
    finally:
        process.terminate()
        process.wait(30)


def is_open(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def asked(kubectl, out, port):
    """The outputs of the printed request, sent through the printed port-forward."""
    forward, curl = COMMAND.findall(out)
    with forwarded(kubectl, forward, port):
        done = subprocess.run(
            ["sh", "-c", curl], capture_output=True, text=True, check=True, timeout=60
        )
    return json.loads(done.stdout)["outputs"]


def test_a_small_file_is_served_from_a_config_map_and_deleted_with_the_model(kubectl, moorage):
    port = free_port()
    options = ("--name=digits", "--contract", f"--local-port={port}")

    code, out, err = moorage("deploy", str(DIGITS / "model.onnx"), *options)

    assert code == 0, out + err
    assert "digits serves\n  inputs:  image FP32 [-1,8,8]\n" in out
    assert [each["name"] for each in asked(kubectl, out, port)] == ["label", "probabilities"]
    spec = kubectl.get(KIND, "digits")["spec"]
    assert spec["model"]["uri"].startswith("configmap://digits-model-")
    assert spec["contract"]["inputs"] == [
        {"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}
    ]

    code, out, _ = moorage("logs", "digits")
    assert code == 0
    assert re.search(r"^digits-\S+ \| .*is ready after", out, re.MULTILINE)
    assert "Pod/digits-" in moorage("events", "digits")[1]
    code, out, _ = moorage("scale", "digits", "2")
    assert (code, out) == (0, "digits: gets 2 replicas\n")
    assert moorage("wait", "digits")[0] == 0
    assert kubectl.get(KIND, "digits")["spec"]["replicas"] == 2
    code, _, err = moorage("retry", "digits")
    assert code == 1
    assert "no rollout is in progress" in err

    code, _, err = moorage("delete", "digits", text="")
    assert code == 2
    assert "add --yes" in err
    assert moorage("delete", "digits", "--yes")[0] == 0
    eventually(
        "the ConfigMap is deleted",
        lambda: kubectl.items("configmaps", "moorage.dev/deployed-model=digits"),
        lambda found: not found,
        120,
    )


def test_changed_content_rolls_out_and_the_earlier_revision_can_be_restored(
    kubectl, moorage, volume, tmp_path
):
    model, port = tmp_path / "adds.onnx", free_port()
    options = ("--name=adds", "--claim=store", "--storage-class=", "--size=100Mi",
               f"--local-port={port}")  # fmt: skip
    large_model(model, 2.0)

    code, out, err = moorage("deploy", str(model), *options)

    assert code == 0, out + err
    assert "claim store is created" in err
    assert "(100 %)" in err
    assert "uploaded and verified" in err
    assert asked(kubectl, out, port)[0]["data"] == [2.5, 2.5]
    first = kubectl.get(KIND, "adds")
    uploaded = volume.joinpath(*first["spec"]["model"]["uri"].split("/")[3:]) / "model.onnx"
    assert uploaded.read_bytes() == model.read_bytes()
    assert kubectl.items("pods", "app.kubernetes.io/managed-by=moorage-deploy") == []

    large_model(model, 3.0)
    code, out, err = moorage("deploy", str(model), *options)
    assert code == 0, out + err
    assert asked(kubectl, out, port)[0]["data"] == [3.5, 3.5]

    code, out, err = moorage("deploy", str(model), *options)
    assert code == 0, out + err
    assert "uploaded already" in err

    revision = first["status"]["revisions"]["current"]
    code, out, err = moorage("rollback", "adds")
    assert (code, revision in out) == (0, True), out + err
    assert moorage("wait", "adds")[0] == 0
    assert kubectl.get(KIND, "adds")["spec"]["model"]["uri"] == first["spec"]["model"]["uri"]


@pytest.mark.expects_restarts
@pytest.mark.expects_errors("is not a valid ONNX model")
def test_a_model_that_cannot_be_loaded_ends_with_the_reason_and_status_3(
    kubectl, moorage, tmp_path
):
    good = tmp_path / "good.onnx"
    shutil.copy(DIGITS / "model.onnx", good)
    assert moorage("deploy", str(good), "--name=digits")[0] == 0
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    soon = {"rollout": {"progressDeadlineSeconds": 20}, "health": {"startupTimeoutSeconds": 10}}
    kubectl.run("patch", KIND, "digits", "--type=merge", "-p", json.dumps({"spec": soon}))

    code, out, err = moorage("deploy", str(bad), "--name=digits")

    assert code == 3, out + err
    assert "is not a valid ONNX model" in out
    assert moorage("retry", "digits")[0] == 0
