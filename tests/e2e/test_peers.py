"""Third-party servers in pods: MLServer and Triton, from their wheels, used as documented.

Their images are built here; the repository only contains their requirements by name.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_cli.__main__ import main as moorage
from support.images import ROOT, build_and_load
from support.kubectl import KIND, Kubectl
from support.manifests import config_map, inference_model

PEERS = ROOT / "tests" / "e2e" / "peers"
# The builds download some 150 MB of wheels.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

FAST = {"periodSeconds": 1}
X = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
Y = {"name": "y", "datatype": "FP32", "shape": [-1, 4]}
REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4.5]}]}
BOTH = pytest.mark.parametrize("transport", ["HTTP", "GRPC"])


@pytest.fixture(scope="module")
def triton(demo, tmp_path_factory) -> str:
    """The image with Triton and the models `doubler` and `broken`."""
    folder = tmp_path_factory.mktemp("triton")
    shutil.copytree(PEERS / "triton", folder, dirs_exist_ok=True)
    subprocess.run(["apt-get", "download", "-qq", "libpython3.11"], cwd=folder, check=True)
    (package,) = folder.glob("libpython3.11_*.deb")
    package.rename(folder / "libpython3.11.deb")
    return build_and_load("triton", folder / "Dockerfile", folder)


@pytest.fixture(scope="module")
def mlserver(demo, tmp_path_factory) -> str:
    """The image with MLServer and no model."""
    folder = tmp_path_factory.mktemp("mlserver")
    return build_and_load("mlserver", PEERS / "mlserver" / "Dockerfile", folder)


def in_triton(image: str, model: str, **spec: Any) -> dict[str, Any]:
    """A model of the Triton image; the image holds it."""
    return inference_model(
        "triton", runtime={"image": image}, model={"name": model}, health=FAST, **spec
    )


def in_mlserver(image: str, model: str, **spec: Any) -> dict[str, Any]:
    """A model from the ConfigMap `files`, on MLServer's own ports."""
    return inference_model(
        "mlserver",
        runtime={"image": image, "ports": {"http": 8080, "grpc": 8081}},
        model={"name": model, "uri": "configmap://files"},
        health=FAST,
        **spec,
    )


def mlserver_files(implementation: str) -> dict[str, Any]:
    """A model folder of MLServer as a ConfigMap."""
    settings = {
        "name": "doubler",
        "implementation": f"models.{implementation}",
        "platform": "python",
        "inputs": [X],
        "outputs": [Y],
    }
    return config_map(
        "files",
        {
            "model-settings.json": json.dumps(settings).encode(),
            "models.py": (PEERS / "mlserver" / "models.py").read_bytes(),
        },
    )


def answer(
    kubectl: Kubectl, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """The output of `moorage infer`."""
    request = folder / "request.json"
    request.write_text(json.dumps(REQUEST))
    words = ["infer", name, "-n", kubectl.namespace, "-f", str(request)]
    code = moorage([*words, "--kubeconfig", kubectl.env["KUBECONFIG"]])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return json.loads(printed.out)


@BOTH
def test_a_model_of_triton_is_served(kubectl, triton, transport, tmp_path, capsys):
    contract = {"policy": "Enforce", "inputs": [X], "outputs": [Y]}
    kubectl.apply(in_triton(triton, "doubler", transport=transport, contract=contract))

    kubectl.wait_condition("triton", "Ready", "True", "Serving")

    status = kubectl.get(KIND, "triton")["status"]
    assert status["server"]["name"] == "triton"
    assert status["model"]["inputs"] == [X]
    assert status["protocol"]["detected"] == "OpenInference"
    assert answer(kubectl, "triton", tmp_path, capsys)["outputs"][0]["data"] == [2, 4, 6, 9]


@BOTH
def test_a_model_that_triton_cannot_load_is_reported_with_its_message(kubectl, triton, transport):
    kubectl.apply(in_triton(triton, "broken", transport=transport))

    ready = kubectl.wait_condition("triton", "Ready", "False", "ModelLoadFailed")

    assert "FileNotFoundError: weights.bin is not there" in ready["message"]


@BOTH
def test_a_model_that_triton_lacks_is_reported_with_its_models(kubectl, triton, transport):
    kubectl.apply(in_triton(triton, "iris", transport=transport))

    ready = kubectl.wait_condition("triton", "Ready", "False", "ModelNotFound")

    assert "the server has no model iris: it has broken, doubler" in ready["message"]


def test_a_version_that_triton_lacks_is_reported_with_its_versions(kubectl, triton):
    model = in_triton(triton, "doubler")
    model["spec"]["model"]["version"] = "7"
    kubectl.apply(model)

    ready = kubectl.wait_condition("triton", "Ready", "False", "VersionNotServed")

    assert "versions 1 of model 'doubler'" in ready["message"]


def test_auto_detects_the_protocol_of_triton(kubectl, triton):
    kubectl.apply(in_triton(triton, "doubler", protocol="Auto"))

    kubectl.wait_condition("triton", "Ready", "True", "Serving")

    assert kubectl.row("triton")["PROTOCOL"] == "OpenInference"


@BOTH
def test_a_model_of_mlserver_is_served(kubectl, mlserver, transport, tmp_path, capsys):
    kubectl.apply(mlserver_files("Doubler"), in_mlserver(mlserver, "doubler", transport=transport))

    kubectl.wait_condition("mlserver", "Ready", "True", "Serving")

    status = kubectl.get(KIND, "mlserver")["status"]
    assert status["server"]["name"] == "mlserver"
    assert status["model"]["outputs"] == [Y]
    assert answer(kubectl, "mlserver", tmp_path, capsys)["outputs"][0]["data"] == [2, 4, 6, 9]


@BOTH
def test_a_model_that_mlserver_lacks_is_reported_with_its_models(kubectl, mlserver, transport):
    kubectl.apply(mlserver_files("Doubler"), in_mlserver(mlserver, "iris", transport=transport))

    ready = kubectl.wait_condition("mlserver", "Ready", "False", "ModelNotFound")

    assert "the server has no model iris: it has doubler" in ready["message"]


def test_a_model_that_mlserver_cannot_load_ends_it(kubectl, mlserver):
    kubectl.apply(mlserver_files("Broken"), in_mlserver(mlserver, "doubler"))

    ready = kubectl.wait_condition("mlserver", "Ready", "False", "CrashLoopBackOff")

    # It ends as if all were well, so the kubelet keeps no line of its log.
    assert "exited with code 0" in ready["message"]


def example(name: str, image: str, **runtime: Any) -> list[dict[str, Any]]:
    """The objects of an example, with this image and these fields of the runtime."""
    text = (ROOT / "examples" / "08-custom-server" / f"{name}.yaml").read_text()
    files, model = yaml.safe_load_all(text)
    model["spec"]["runtime"] |= {"image": image, **runtime}
    # the user of the images of these tests
    model["spec"]["podTemplate"]["spec"]["securityContext"] = {"runAsUser": 65532}
    return [files, model]


def test_the_example_of_triton_serves(kubectl, triton, tmp_path, capsys):
    # the wheel has the program and its backends elsewhere
    command = ["/opt/tritonserver/bin/tritonserver"]
    command.append("--backend-directory=/opt/tritonserver/backends")
    kubectl.apply(*example("triton", triton, command=command))

    kubectl.wait_condition("triton", "Ready", "True", "Serving")

    assert answer(kubectl, "triton", tmp_path, capsys)["outputs"][0]["data"] == [2, 4, 6, 9]


def test_the_example_of_mlserver_serves(kubectl, mlserver, tmp_path, capsys):
    kubectl.apply(*example("mlserver", mlserver))

    kubectl.wait_condition("mlserver", "Ready", "True", "Serving")

    assert answer(kubectl, "mlserver", tmp_path, capsys)["outputs"][0]["data"] == [2, 4, 6, 9]
