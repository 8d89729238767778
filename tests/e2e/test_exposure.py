"""Models of real pods for clients outside the cluster: `status.url` is where inference works.

The gateway runs Traefik's controllers and balancer on the node.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Authority
from support.definitions import installed
from support.gateway_api import ADDRESS, crds, gateway, gateway_process, ingress_class
from support.kubectl import KIND, Kubectl
from support.listening import free_port
from support.manifests import config_map, inference_model, secret
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAME = "doubler"
CODE = b"""
from moorage_runtime.backends.python import PythonModel


class Doubler(PythonModel):
    inputs = [("x", "FP32", [2])]
    outputs = [("y", "FP32", [2])]

    def predict(self, inputs, request):
        return {"y": 2 * inputs["x"]}
"""
REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 4]}]}
PARENTS = {"parentRefs": [{"name": "web"}]}
NOTICED_SECONDS = 60


@pytest.fixture(scope="module")
def gateway_api(demo) -> Iterator[None]:
    """The Gateway API, installed until the last of these tests has ended."""
    cluster = Kubectl(demo.env, "default")
    with installed(cluster, crds()):
        cluster.apply(ingress_class("traefik"))
        try:
            yield
        finally:
            cluster.run("delete", "ingressclass/traefik")


@pytest.fixture
def ports(kubectl: Kubectl, gateway_api: None, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """The ports of a gateway for Gateways and Ingresses, without and with TLS."""
    port, tls_port = free_port(), free_port()
    kubectl.apply(*gateway("web", port), config_map("doubler-files", {"model.py": CODE}))
    with gateway_process(kubectl.env, port, tmp_path, tls_port=tls_port):
        try:
            yield port, tls_port
        finally:
            kubectl.run("delete", KIND, NAME, "--ignore-not-found", "--wait=true")


@pytest.fixture
def port(ports: tuple[int, int]) -> int:
    """The port without TLS."""
    return ports[0]


def doubler(**route: Any) -> dict[str, Any]:
    shown = {"route": route} if route else {}
    return inference_model(NAME, model={"uri": "configmap://doubler-files"}, **shown)


def status(kubectl: Kubectl) -> dict[str, Any]:
    return kubectl.get(KIND, NAME)["status"]


def curl(url: str, *options: str) -> dict[str, Any]:
    """The answer of an inference request that curl sends to the model at a base URL."""
    address = f"{url}/v2/models/{NAME}/infer"
    words = ["curl", "--silent", "--show-error", "--fail", "--max-time", "10", *options]
    done = subprocess.run(
        [*words, "--data", json.dumps(REQUEST), address],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def is_exposed(url: str, *options: str) -> bool:
    try:
        return curl(url, *options)["outputs"][0]["data"] == [2.0, 8.0]
    except subprocess.CalledProcessError:
        return False


def test_inference_works_at_the_url_until_the_route_is_removed(
    kubectl: Kubectl, port: int
) -> None:
    kubectl.apply(doubler(**PARENTS))
    kubectl.wait_condition(NAME, "RouteAccepted", "True", "GatewayAccepted", NOTICED_SECONDS)
    kubectl.wait_condition(NAME, "UpToDate", "True", seconds=120)
    url = status(kubectl)["url"]
    assert url == f"http://{ADDRESS}:{port}"
    eventually("inference", lambda: is_exposed(url), bool, 30)
    assert url in kubectl.run("get", KIND, NAME, "-o", "wide")
    assert status(kubectl)["externalEndpoints"][0]["url"] == f"{url}/v2/models/{NAME}/infer"

    kubectl.apply(doubler())
    eventually("no URL", lambda: "url" in status(kubectl), lambda has: not has, 30)
    eventually("no route", lambda: kubectl.items("httproutes"), lambda found: found == [], 30)
    eventually("no inference", lambda: is_exposed(url), lambda found: not found, 30)
    assert kubectl.condition(NAME, "Ready")["status"] == "True"


def test_inference_works_through_an_ingress(kubectl: Kubectl, port: int) -> None:
    host = "doubler.example.com"
    kubectl.apply(doubler(hostnames=[host], ingress={"className": "traefik"}))
    kubectl.wait_condition(NAME, "RouteAccepted", "True", "IngressReady", NOTICED_SECONDS)
    kubectl.wait_condition(NAME, "UpToDate", "True", seconds=120)

    url = status(kubectl)["url"]

    assert url == f"http://{host}"
    # the Ingress controller of the test listens on another port than the URL's, without DNS
    to_gateway = ("--connect-to", f"{host}:80:{ADDRESS}:{port}")
    eventually("inference", lambda: is_exposed(url, *to_gateway), bool, 30)
    kubectl.apply(doubler())
    eventually("no Ingress", lambda: kubectl.items("ingresses"), lambda found: found == [], 30)
    eventually("no URL", lambda: "url" in status(kubectl), lambda has: not has, 30)


def test_inference_works_through_an_ingress_with_tls(
    kubectl: Kubectl, ports: tuple[int, int], tmp_path: Path
) -> None:
    host, authority = "doubler.example.com", Authority()
    trusted = tmp_path / "ca.crt"
    trusted.write_text(authority.certificate)
    kubectl.apply(secret("doubler-tls", authority.issue(host).secret))
    ingress = {"className": "traefik", "tlsSecretName": "doubler-tls"}
    kubectl.apply(doubler(hostnames=[host], ingress=ingress))
    kubectl.wait_condition(NAME, "RouteAccepted", "True", "IngressReady", NOTICED_SECONDS)
    kubectl.wait_condition(NAME, "UpToDate", "True", seconds=120)

    url = status(kubectl)["url"]

    assert url == f"https://{host}"
    to_gateway = ("--connect-to", f"{host}:443:{ADDRESS}:{ports[1]}", "--cacert", str(trusted))
    eventually("inference", lambda: is_exposed(url, *to_gateway), bool, 30)
