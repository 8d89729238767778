"""One control plane for all integration tests, one operator process, a namespace for each test."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import NotFoundError

from support import browser as browsers
from support import waiting
from support.chart_rights import operators_kubeconfig
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    control_plane,
    eventually,
    install_crd,
)
from support.runtime import Runtime, running

pytestmark = pytest.mark.integration

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "01-digits"
_numbers = count(1)


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A running control plane with the CRD."""
    folder = tmp_path_factory.mktemp("control-plane")
    try:
        control_plane("up", folder)
        config = folder / "kubeconfig"
        install_crd(config)
        yield config
    finally:
        control_plane("down", folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def running_operator(
    kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator with exactly the rights of the chart, so that every test checks them."""
    folder = tmp_path_factory.mktemp("operator")
    rights = operators_kubeconfig(kubeconfig, folder)
    operator = OperatorProcess(rights, folder / "log")
    operator.start()
    try:
        yield operator
    finally:
        operator.stop()


@pytest.fixture
def operator(running_operator: OperatorProcess) -> OperatorProcess:
    """The operator, ready; a test that ends it starts it again."""
    running_operator.wait_ready()
    return running_operator


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[Api]:
    """The API in the test's own namespace."""
    made = Api(kubeconfig, f"test-{next(_numbers)}")
    made.of("Namespace").create(
        body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.namespace}}
    )
    # The controller manager makes it; pods are refused before. After restarts of the API server it
    # may wait for up to a minute until it looks for new namespaces.
    account = made._client.resources.get(api_version="v1", kind="ServiceAccount")
    eventually(
        "the default service account",
        lambda: account.get(namespace=made.namespace).to_dict()["items"],
        seconds=90,
    )
    yield made
    listed = waiting.eventually("models", lambda: _models(made), lambda seen: seen is not None, 20)
    for model in listed or ():
        made.delete("InferenceModel", model["metadata"]["name"])


def _models(api: Api) -> list[dict[str, Any]] | None:
    """None while the API server does not serve the kind: for a moment after its CRD came back."""
    try:
        return api.list("InferenceModel")
    except NotFoundError:
        return None


@pytest.fixture
def kubelet(api: Api) -> Kubelet:
    return Kubelet(api)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as made:
        yield made


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    """The bundled runtime with the digits model."""
    with running(f"--model-repository={DIGITS}", "--model-name=digits") as made:
        yield made


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browsers.Browser]:
    if not browsers.is_installed():
        pytest.skip(browsers.ABSENT)
    with browsers.chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def browser(window: browsers.Browser) -> Iterator[browsers.Browser]:
    """A desktop's browser; afterwards, every page has asked this machine only."""
    window.open("about:blank")
    window.resize(1200, 820)
    window.prefer("light")
    window.requested_hosts()
    window.complaints()
    yield window
    hosts = window.requested_hosts()
    assert {each.partition(":")[0] for each in hosts} == {"127.0.0.1"}
    # requests that fail are part of some tests; uncaught errors and refused content are not
    assert [each for each in window.complaints() if "Failed to load resource" not in each] == []
