"""The documented steps for a cluster with a registry, as printed, with a registry on this machine.

The demo's release is replaced by the one that the steps install, and restored at the end.
"""

import json
from pathlib import Path

import httpx
import pytest
import yaml

from moorage_localcluster.platforms import architecture, own
from support.documented import commands
from support.installation import NAMESPACE as RELEASE
from support.installation import shell, uninstall
from support.kubectl import Kubectl
from support.manifests import digits, digits_files
from support.private_registry import PASSWORD, USER, logged_in, registry

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
INSTALL = ROOT / "docs" / "how-to" / "install.md"
VALUES = ROOT / "build" / "images" / "values.yaml"
DOCUMENTED = "registry.example.com/team"
INDEX = "application/vnd.oci.image.index.v1+json"
OPERATOR = "app.kubernetes.io/name=moorage"


def image_of(kubectl: Kubectl, selector: str) -> str:
    (pod,) = kubectl.items("pods", selector)
    return pod["spec"]["containers"][0]["image"]


def test_the_readmes_steps_serve_a_model_from_images_of_a_registry(own_cluster, tmp_path):
    env, default = own_cluster, Kubectl(own_cluster, "default")
    with registry(tmp_path, private=False) as address:
        for command in commands(README, "Install"):
            shell(command.replace(DOCUMENTED, f"{address}/team"), env)
        used = commands(README, "Use it")
        shown = next(n for n, line in enumerate(used) if line.startswith("kubectl get"))
        said = [shell(command, env) for command in used[: shown + 1]]

        assert "digits   True" in said[-1]
        image = yaml.safe_load(VALUES.read_text())["image"]
        assert image_of(Kubectl(env, RELEASE), OPERATOR) == (
            f"{address}/team/moorage-operator@{image['operator']['digest']}"
        )
        assert image_of(default, "moorage.dev/model=digits") == (
            f"{address}/team/moorage-runtime@{image['runtime']['digest']}"
        )
        default.run("delete", "inferencemodel", "digits")


def test_images_for_platforms_are_pushed_as_an_index(own_cluster, tmp_path):
    with registry(tmp_path, private=False) as address:
        # two platforms would need an emulator, which takes too long here
        words = f"REGISTRY={address}/team TAG=index PUSH=1 PLATFORMS={own()}"
        shell(f"make images {words}", own_cluster)

        image = yaml.safe_load(VALUES.read_text())["image"]
        for name in ("operator", "runtime", "cli"):
            digest = image[name]["digest"]
            url = f"http://{address}/v2/team/moorage-{name}/manifests/{digest}"
            index = httpx.get(url, headers={"Accept": INDEX}).json()
            platforms = [each["platform"] for each in index["manifests"]]
            assert platforms == [{"architecture": architecture(own()), "os": "linux"}]


def test_with_a_private_registry_a_model_serves_once_its_namespace_has_the_secret(
    own_cluster, kubectl, tmp_path
):
    with registry(tmp_path, private=True) as address:
        env = {**own_cluster, **logged_in(tmp_path, address)}
        steps = commands(INSTALL, "Build and push the images")
        for command in [*steps, *commands(INSTALL, "Private registries")]:
            printed = command.replace(DOCUMENTED, f"{address}/team")
            printed = printed.replace("registry.example.com", address)
            printed = printed.replace("USER", USER).replace("PASSWORD", PASSWORD)
            shell(printed, env)

        # the namespace of this test has no Secret yet
        kubectl.apply(digits_files(), digits())
        found = kubectl.wait_condition("digits", "Ready", "False", "ImagePullBackOff", 120)
        assert "Secrets that exist in the model's namespace" in found["message"]

        login = {"auths": {address: {"username": USER, "password": PASSWORD}}}
        kubectl.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/dockerconfigjson",
                "metadata": {"name": "registry"},
                "stringData": {".dockerconfigjson": json.dumps(login)},
            }
        )
        kubectl.wait_condition("digits", "Ready", "True", "Serving", 300)
        kubectl.run("delete", "inferencemodel", "digits")
        shell("kubectl delete secret registry --namespace default", env)


def test_the_chart_of_a_registry_and_the_manifests_serve_from_images_by_digest(
    own_cluster, tmp_path
):
    env, default = own_cluster, Kubectl(own_cluster, "default")
    with registry(tmp_path, private=False) as address:
        for command in commands(INSTALL, "Install from a registry"):
            printed = command.replace(DOCUMENTED, f"{address}/team")
            # the registry of this test has no TLS
            plain = " --plain-http" if "oci://" in printed else ""
            said = shell(f"{printed}{plain}", env)
        assert "Phase:          Succeeded" in said
        image = yaml.safe_load(VALUES.read_text())["image"]
        operator = f"{address}/team/moorage-operator@{image['operator']['digest']}"
        assert image_of(Kubectl(env, RELEASE), OPERATOR) == operator
        uninstall(env)

        for command in commands(INSTALL, "Install without Helm"):
            shell(command, env)
        assert image_of(Kubectl(env, RELEASE), OPERATOR) == operator
        default.apply(digits_files(), digits())
        default.wait_condition("digits", "Ready", "True", "Serving", 300)
        assert image_of(default, "moorage.dev/model=digits") == (
            f"{address}/team/moorage-runtime@{image['runtime']['digest']}"
        )
        default.run("delete", "inferencemodel", "digits")
        clear = (
            "kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/instance=moorage"
        )
        shell(f"{clear} && kubectl delete namespace {RELEASE}", env)
