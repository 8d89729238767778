"""The proxy to the API server: the one that kubectl uses, in the same cases."""

import base64
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.rest import should_bypass_proxies

from moorage_cli.ask.cluster import Cluster, TokenAccount
from moorage_cli.ask.kubeconfig import load_kubeconfig
from moorage_cli.printing.failures import Failure
from support.canned_server import answering, http_answer

NO_MODELS = http_answer(HTTPStatus.OK, b'{"metadata": {"resourceVersion": "7"}, "items": []}')
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
LOGIN = "Basic " + base64.b64encode("zoë:p:w".encode()).decode()


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a kubeconfig and sets the environment; returns the path."""

    def write(server: str, proxy_url: str = "", **variables: str) -> str:
        for each in VARIABLES:
            monkeypatch.delenv(each, raising=False)
            monkeypatch.delenv(each.upper(), raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        proxy = f", proxy-url: '{proxy_url}'" if proxy_url else ""
        path = tmp_path / "kubeconfig"
        path.write_text(
            f"clusters: [{{name: c, cluster: {{server: '{server}'{proxy}}}}}]\n"
            "contexts: [{name: x, context: {cluster: c, namespace: models}}]\n"
            "current-context: x\n"
        )
        return str(path)

    return write


def proxy_of(configuration: Any) -> str:
    """The proxy that requests go through; empty for none."""
    is_direct = should_bypass_proxies(configuration.host, configuration.no_proxy or "")
    return "" if is_direct else configuration.proxy or ""


def test_a_proxy_of_the_environment_needs_no_scheme(kubeconfig) -> None:
    with answering(NO_MODELS) as proxy:
        path = kubeconfig("http://api.invalid", HTTP_PROXY=f"127.0.0.1:{proxy.port}")
        Cluster(path).check_list("models")

    assert proxy.asked[0].startswith("GET http://api.invalid/apis/moorage.dev/")


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"])
def test_the_loopback_address_needs_no_proxy_of_the_environment(kubeconfig, server: str) -> None:
    # "socks9" would be refused if it were used
    for proxy in ("http://proxy.invalid:1", "socks9://proxy.invalid:1"):
        configuration = load_kubeconfig(kubeconfig(server, HTTP_PROXY=proxy), "").configuration

        assert proxy_of(configuration) == ""


def test_the_proxy_of_a_kubeconfig_counts_for_every_address(kubeconfig) -> None:
    path = kubeconfig("http://127.0.0.1:1", "http://proxy.invalid", NO_PROXY="*")

    configuration = load_kubeconfig(path, "").configuration

    # with a port, which port-forwards need
    assert proxy_of(configuration) == "http://proxy.invalid:80"


def test_the_login_of_a_proxy_is_sent_to_it(kubeconfig) -> None:
    url = "http://zo%C3%AB:p%3Aw@[::1]:8080"
    for path in (
        kubeconfig("http://api.invalid", url),
        kubeconfig("http://api.invalid", HTTP_PROXY=url),
    ):
        configuration = load_kubeconfig(path, "").configuration

        assert proxy_of(configuration) == "http://[::1]:8080"
        assert configuration.proxy_headers == {"proxy-authorization": LOGIN}


def test_an_invalid_proxy_of_the_environment_is_named_without_its_password(kubeconfig) -> None:
    path = kubeconfig("https://api.invalid", HTTPS_PROXY="ftp://proxy.invalid")
    named = "the proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY: 'ftp://proxy.invalid' is invalid: "
    with pytest.raises(Failure, match=named):
        Cluster(path)
    with pytest.raises(Failure, match=named):
        Cluster(account=TokenAccount("https://api.invalid", "ca.crt", "t"))

    path = kubeconfig("https://api.invalid", HTTPS_PROXY="ftp://user:secret@proxy.invalid")
    with pytest.raises(Failure, match=r"ALL_PROXY is invalid: must be http://HOST:PORT or"):
        Cluster(path)
