"""Parses the variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY. Pure."""

import base64
import ipaddress
from urllib.parse import unquote, urlsplit

__all__ = ["is_exempt", "parse_proxy"]


def parse_proxy(text: str) -> tuple[str, dict[str, str]]:
    """The address without a user, and the header with the user and the password, if any.

    Without a scheme, the proxy is an http one, as for curl. A user and a password are
    percent-encoded.
    """
    parts = urlsplit(text if "://" in text else f"http://{text}")
    user, marked, host = parts.netloc.rpartition("@")
    address = f"{parts.scheme}://{host}"
    if not marked:
        return address, {}
    name, _, password = user.partition(":")
    pair = f"{unquote(name)}:{unquote(password)}".encode()
    return address, {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def is_exempt(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY has the IP address of a URL, alone or in a range such as 10.0.0.0/8.

    Python's own reading of the variable compares only text, unlike curl, Go and the kubelet.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(_covers(entry.strip(), address) for entry in no_proxy.split(","))


def _covers(entry: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
