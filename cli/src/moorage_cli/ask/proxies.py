"""The HTTP proxy between this machine and the API server, chosen as kubectl chooses it.

The `kubernetes` package uses the proxy of the environment for the loopback address too, lets
NO_PROXY overrule `proxy-url`, sends no password, and raises an error for a proxy without a scheme.
"""

import base64
import importlib.util
import ipaddress
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from kubernetes.client.rest import should_bypass_proxies

from moorage_cli.printing.failures import Failure

__all__ = ["parse_proxy", "use_proxy"]

_ALL_HOSTS, _NO_HOST = "*", ","  # an empty text would mean NO_PROXY
_PORTS = {"http": 80, "https": 443}
_SOCKS = ("socks5", "socks5h", "socks4", "socks4a")


def use_proxy(configuration: Any, given: str = "") -> None:
    """Complete the proxy of a configuration, which comes from the environment by default.

    Args:
        configuration: The client's configuration, with the address of the API server.
        given: The `proxy-url` of a kubeconfig, which was checked; empty without one.

    Raises:
        Failure: The proxy of the environment is invalid.
    """
    url = given or configuration.proxy
    if not url:
        return
    if given:
        configuration.no_proxy = _NO_HOST
    elif _is_loopback(urlsplit(configuration.host).hostname or ""):
        configuration.no_proxy = _ALL_HOSTS
    if should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return
    try:
        parts = parse_proxy(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise Failure(f"the proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY{error}") from error
    if parts.scheme in _SOCKS:
        return
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    configuration.proxy = f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}"
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        encoded = base64.b64encode(login.encode()).decode()
        configuration.proxy_headers = {"proxy-authorization": f"Basic {encoded}"}


def parse_proxy(url: str) -> SplitResult:
    """The parts of the URL of a proxy.

    Raises:
        ValueError: It is invalid; the message repeats it only if it has no password.
    """
    has_socks = importlib.util.find_spec("socks") is not None
    allowed = (*_PORTS, *(_SOCKS if has_socks else ()))
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in allowed and parts.hostname and parts.port != 0
    except ValueError:
        is_valid, parts = False, urlsplit("")
    if not is_valid or any(char.isspace() for char in url):
        sentence = "must be " + " or ".join(f"{each}://HOST:PORT" for each in allowed)
        if parts.scheme in _SOCKS and not has_socks:
            sentence += f": {parts.scheme}:// requires the package PySocks beside this tool"
        value = "" if "@" in url else f": {url!r}"
        raise ValueError(f"{value} is invalid: {sentence}")
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
