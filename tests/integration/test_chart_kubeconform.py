"""kubeconform, a third-party checker of manifests, on what the chart renders."""

import subprocess
from pathlib import Path

import pytest

from support import api_schemas
from support.chart import template
from support.go_programs import program

pytestmark = pytest.mark.integration

MODULE = Path(__file__).parent / "kubeconform"
DIGEST = "sha256:" + "0c" * 32
SETS = {
    "defaults": (),
    "everything": (
        *("--set", "replicas=2,networkPolicy.enabled=true,metrics.dashboard.enabled=true"),
        *("--set", "page.enabled=true"),
        *("--set", "admissionPolicy.mode=deny,rbac.secretHints=true,priorityClassName=high"),
        *("--set", f"image.operator.digest={DIGEST},image.pullSecrets[0].name=registry"),
        *("--set", "podLabels.a=b,podAnnotations.a=b,nodeSelector.a=b,extraEnv[0].name=A"),
        *("--set", "tolerations[0].operator=Exists,serviceAccount.annotations.a=b"),
    ),
    "namespaces": ("--set", "watchNamespaces={team-a,team-b}"),
    "openshift": ("--set", "openshift=true,listenAddress=::"),
}


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Runs kubeconform on manifests."""
    folder = tmp_path_factory.mktemp("schemas")
    kubeconform = program(MODULE, "github.com/yannh/kubeconform/cmd/kubeconform")
    api_schemas.write(folder)
    location = f"{folder}/{api_schemas.LOCATION}"

    def checked(manifests: str) -> subprocess.CompletedProcess[str]:
        command = [kubeconform, "-summary", "-schema-location", location, "-"]
        return subprocess.run(
            command, input=manifests, capture_output=True, text=True, check=False, timeout=60
        )

    return checked


@pytest.mark.parametrize("words", SETS.values(), ids=SETS)
def test_every_rendered_object_conforms(check, words):
    done = template("--set", "image.registry=localhost", *words)
    assert done.returncode == 0, done.stderr

    checked = check(done.stdout)

    assert checked.returncode == 0, checked.stdout
    assert "Invalid: 0, Errors: 0, Skipped: 0" in checked.stdout


def test_a_field_that_kubernetes_does_not_know_is_found(check):
    done = template("--set", "image.registry=localhost")

    checked = check(done.stdout.replace("imagePullPolicy:", "imagePolicy:"))

    assert checked.returncode == 1
    assert "imagePolicy" in checked.stdout
