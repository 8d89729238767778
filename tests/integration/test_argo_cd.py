"""The command of the how-to guide installs the health check beside other settings of Argo CD."""

import json
import subprocess
from pathlib import Path

import pytest

from support.control_plane import kubectl_of
from support.documented import commands

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "how-to" / "argo-cd.md"
KEY = "resource.customizations.health.moorage.dev_InferenceModel"


def test_the_documented_command_adds_the_health_check_and_keeps_other_keys(
    kubeconfig: Path,
) -> None:
    kubectl = kubectl_of(kubeconfig, "argocd")
    kubectl.run("create", "namespace", "argocd")
    kubectl.run("create", "configmap", "argocd-cm", "--from-literal=url=https://argocd.example")

    [command] = commands(GUIDE, "Install the health check")
    subprocess.run(["/bin/sh", "-ec", command], cwd=ROOT, env=dict(kubectl.env), check=True)

    found = json.loads(kubectl.run("get", "configmap", "argocd-cm", "--output=json"))["data"]
    check = (GUIDE.parent / "argo-cd" / "health.lua").read_text()
    assert found == {"url": "https://argocd.example", KEY: check}
