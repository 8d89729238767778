"""helm installs, removes and installs the chart again on a real API server."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chart_rights import CHART, NAMESPACE, PROGRAMS, RELEASE
from support.operator_cluster import control_plane, eventually

pytestmark = pytest.mark.integration

DIGEST = "sha256:" + "0b" * 32
EVERYTHING = {
    "image": {
        "registry": "registry.example.com/team",
        "operator": {"digest": DIGEST},
        "pullSecrets": [{"name": "registry"}],
    },
    "admissionPolicy": {"mode": "deny", "routeHostnames": ["*.ml.example.com"]},
    "networkPolicy": {"enabled": True},
    "rbac": {"secretHints": True},
    "metrics": {"dashboard": {"enabled": True}},
    "replicas": 2,
}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a control plane in which nothing is installed."""
    folder = tmp_path / "control-plane"
    control_plane("up", folder)
    try:
        yield folder / "kubeconfig"
    finally:
        control_plane("down", folder)
        shutil.rmtree(folder, ignore_errors=True)


def run(program: str, kubeconfig: Path, *words: str | Path) -> str:
    done = subprocess.run(
        [PROGRAMS / program, "--kubeconfig", kubeconfig, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def test_the_crd_survives_an_uninstall_of_the_release(plane: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(EVERYTHING))
    place = ("--namespace", NAMESPACE)
    install = ("install", RELEASE, CHART, "-f", values, *place, "--create-namespace")

    said = run("helm", plane, *install)
    pod = json.loads(run("kubectl", plane, "get", "deployment", RELEASE, *place, "-o", "json"))
    run("helm", plane, "uninstall", RELEASE, *place)
    run("kubectl", plane, "get", "crd", "inferencemodels.moorage.dev")
    run("helm", plane, *install)

    spec = pod["spec"]["template"]["spec"]
    image = f"registry.example.com/team/moorage-operator@{DIGEST}"
    assert spec["containers"][0]["image"] == image
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert "pull Secrets registry." in said

    def checked() -> dict:
        words = ("get", "validatingadmissionpolicy", f"{RELEASE}-models", "-o", "json")
        return json.loads(run("kubectl", plane, *words)).get("status", {})

    status = eventually("the policy's types are checked", checked)
    assert not status["typeChecking"].get("expressionWarnings")
