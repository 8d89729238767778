"""Parses the address of a proxy, as the variables HTTPS_PROXY and HTTP_PROXY have it. Pure."""

import base64
from urllib.parse import unquote, urlsplit

__all__ = ["parse_proxy"]


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
