"""The pages of the examples, followed to the letter on real pods.

Each page is followed in a namespace of its own. What the local cluster lacks is there
beforehand: a gateway, and an image of the S3 server. Other examples are tested where their tools
are: test_autoscaling.py, test_network_policies.py, test_peers.py and test_runtimes.py.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.definitions import installed
from support.documented import steps
from support.environments import ROOT
from support.gateway_api import crds, gateway_class, gateway_process
from support.go_programs import program
from support.images import build_and_load
from support.kubectl import KIND, Kubectl
from support.listening import free_port
from support.reader import reader
from support.s3_server import PACKAGE, SOURCE
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

EXAMPLES = ROOT / "examples"
FOLLOWED = (
    "01-digits",
    "07-python-model",
    "13-checks",
    "14-blue-green",
    "18-many-models",
    "21-network-policy",
    "23-clients",
)
S3_DOCKERFILE = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY s3 /s3
USER 65532:65532
ENTRYPOINT ["/s3"]
"""


def follow(
    example: str,
    folder: Path,
    env: Mapping[str, str],
    replaced: Mapping[str, str] | None = None,
) -> None:
    """Follow the page of an example.

    Args:
        example: The name of its folder.
        folder: Where the commands run, with a copy of the examples.
        env: The environment of the commands.
        replaced: Texts of the example's manifests, with their replacements on this cluster.
    """
    copied = folder / "examples"
    shutil.copytree(EXAMPLES, copied)
    for old, new in (replaced or {}).items():
        holding = [file for file in (copied / example).glob("*.yaml") if old in file.read_text()]
        assert holding, f"no manifest of {example} contains {old}"
        for file in holding:
            file.write_text(file.read_text().replace(old, new))
    with reader(folder, dict(env), [Path(sys.executable).parent]) as somebody:
        for step in steps(EXAMPLES / example / "README.md"):
            somebody.follow(step)


@pytest.fixture
def env(kubectl: Kubectl, tmp_path: Path) -> dict[str, str]:
    """The environment of a reader whose context has the namespace of the test."""
    config = tmp_path / "kubeconfig"
    shutil.copy(kubectl.env["KUBECONFIG"], config)
    made = {**kubectl.env, "KUBECONFIG": str(config)}
    words = ["kubectl", "config", "set-context", "--current", f"--namespace={kubectl.namespace}"]
    subprocess.run(words, env=made, check=True, capture_output=True)
    return made


@pytest.mark.parametrize("example", FOLLOWED)
def test_the_page_of_an_example_works_as_written(kubectl, env, tmp_path, example):
    if example == "23-clients" and not shutil.which("node"):
        pytest.skip("no Node.js is installed")

    follow(example, tmp_path, env)

    eventually("its models are deleted", lambda: kubectl.items(KIND), lambda left: not left, 30)


def test_the_page_about_tls_works_as_written(demo, default, tmp_path):
    # its certificate names the namespace default
    follow("20-tls-and-tokens", tmp_path, demo.env)

    assert not list(tmp_path.glob("tls.*"))
    assert default.get("secret", "digits-tls") == {}


def test_a_model_comes_from_a_bucket_as_written(env, tmp_path):
    build = tmp_path / "image"
    build.mkdir()
    shutil.copy(program(SOURCE, PACKAGE), build / "s3")
    (build / "Dockerfile").write_text(S3_DOCKERFILE)
    image = build_and_load("s3", build / "Dockerfile", tmp_path)

    follow("12-stores", tmp_path, env, {"ghcr.io/versity/versitygw:v1.8.0": image})


def test_a_canary_gets_its_share_as_written(demo, kubectl, env, tmp_path):
    port = free_port()
    with (
        installed(Kubectl(demo.env, "default"), crds()),
        gateway_process(demo.env, port, tmp_path),
    ):
        kubectl.apply(gateway_class())
        try:
            address = {"GATEWAY": f"http://127.0.0.1:{port}"}
            follow("15-canary", tmp_path, {**env, **address}, {"port: 8000": f"port: {port}"})
        finally:
            kubectl.run("delete", KIND, "--all", "--wait=true")


def test_a_model_is_reached_with_tls_as_written(demo, kubectl, env, tmp_path):
    with (
        installed(Kubectl(demo.env, "default"), crds()),
        gateway_process(demo.env, free_port(), tmp_path, tls_port=8443),
    ):
        kubectl.apply(gateway_class())
        try:
            follow("19-expose", tmp_path, {**env, "GATEWAY": "127.0.0.1"})
        finally:
            kubectl.run("delete", KIND, "--all", "--wait=true")
