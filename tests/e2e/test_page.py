"""The page as the chart installs it: a user sees the wall and asks a model with their token."""

import json
import re
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISGID, S_ISUID
from typing import Any

import httpx
import pytest

import sbom
from support.images import BASE_IMAGE, run
from support.installation import NAMESPACE, shell
from support.kubectl import Kubectl
from support.manifests import digits, digits_files, sample

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
TAG = "page-test"
UPGRADE = (
    f"helm upgrade moorage charts/moorage --namespace {NAMESPACE} --reuse-values --wait "
    "--set page.enabled={enabled},image.cli.tag=" + TAG
)
SECONDS = 60


@pytest.fixture(scope="module")
def image(demo: Any, tmp_path_factory: pytest.TempPathFactory) -> sbom.Contents:
    """The contents of the image, which the node has."""
    del demo
    archive = tmp_path_factory.mktemp("image") / "cli.tar"
    words = ["--file", ROOT / "cli" / "Dockerfile", "--context", ROOT, "--output", archive]
    run("base-image")
    run(
        *("build", *words, "--tag", f"localhost/moorage-cli:{TAG}"),
        *("--build-arg", f"BASE_IMAGE={BASE_IMAGE}"),
    )
    run("load", archive)
    return sbom.read(archive)


@pytest.fixture(scope="module")
def installed(demo: Any, image: sbom.Contents) -> Iterator[None]:
    """The release of the demo with the page."""
    del image
    shell(UPGRADE.format(enabled="true"), demo.env)
    yield
    shell(UPGRADE.format(enabled="false"), demo.env)


@contextmanager
def forwarded(kubectl: Kubectl) -> Generator[str]:
    """The URL of the page through a port-forward to its Service."""
    command = ["kubectl", "port-forward", "--namespace", NAMESPACE, "service/moorage-page", ":80"]
    with subprocess.Popen(
        command, env=dict(kubectl.env), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert found, "the port-forward did not start"
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            process.terminate()


def token(kubectl: Kubectl, name: str, role: str) -> dict[str, str]:
    """The header of a new account with a role in the namespace."""
    kubectl.run("create", "serviceaccount", name)
    account = f"--serviceaccount={kubectl.namespace}:{name}"
    kubectl.run("create", "rolebinding", name, f"--clusterrole={role}", account)
    return {"Authorization": f"Bearer {kubectl.run('create', 'token', name).strip()}"}


def test_a_user_sees_the_wall_and_asks_the_model_with_their_own_rights(
    installed: None, kubectl: Kubectl
) -> None:
    kubectl.apply(digits_files(), digits())
    editor, viewer = token(kubectl, "editor", "edit"), token(kubectl, "viewer", "view")
    kubectl.wait_condition("digits", "Ready", "True", "Serving", 120)
    query = {"namespace": kubectl.namespace}
    body = {**query, "name": "digits", "command": "infer", "request": json.dumps(sample(3))}

    with forwarded(kubectl) as url, httpx.Client(base_url=url, timeout=SECONDS) as page:
        assert page.get("/api/models", params=query).status_code == 401
        with page.stream("GET", "/api/models", params=query, headers=viewer) as stream:
            assert stream.status_code == 200
            first = next(found for line in stream.iter_lines() if (found := json.loads(line)))
        assert [(row["name"], row["state"]) for row in first["all"]] == [("digits", "serving")]
        everywhere = page.get("/api/models", headers=viewer)
        assert (everywhere.status_code, "at the cluster scope" in everywhere.text) == (403, True)

        refused = page.post("/api/do", json=body, headers=viewer)
        assert refused.status_code != 200 or refused.json()["ok"] is False
        assert "pods/portforward" in refused.text
        answer = page.post("/api/do", json=body, headers=editor).json()
        assert answer["ok"] is True, answer
        assert json.loads(answer["text"])["outputs"]


def test_the_page_has_no_account_to_act_with(installed: None, kubectl: Kubectl) -> None:
    pods = Kubectl(kubectl.env, NAMESPACE).items("pods", "app.kubernetes.io/name=moorage-page")
    (pod,) = pods
    assert all("token" not in str(each) for each in pod["spec"]["volumes"])
    mounts = [each["mountPath"] for each in pod["spec"]["containers"][0]["volumeMounts"]]
    assert sorted(mounts) == ["/etc/moorage/api-server", "/tmp"]


def test_its_image_has_only_its_own_packages_and_no_privileges(image: sbom.Contents) -> None:
    found = {each.name for each in sbom.packages(image) if each.kind == "pypi"}
    assert "moorage-cli" in found
    assert not {"pip", "kopf", "onnxruntime", "moorage-operator", "moorage-runtime"} & found
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["/opt/moorage/bin/moorage"]
    assert [path for path, mode in image.modes.items() if mode & (S_ISUID | S_ISGID)] == []
    assert not [path for path in image.modes if path.endswith(("bin/apt", "bin/dpkg", "bin/pip"))]
