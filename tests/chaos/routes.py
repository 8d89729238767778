"""Where the node sends the requests of each Service, read from kube-proxy's rules."""

import asyncio
import re
from collections.abc import Mapping

_CHAIN = re.compile(r"chain service-\w+-([^/\s]+)/([^/\s]+)/\S* \{(.*?)\n\t\}", re.DOTALL)
_ENDPOINT = re.compile(r"endpoint-\S+__([0-9a-f.:]+)/\d+")


async def read(namespace: str) -> Mapping[str, frozenset[str]] | None:
    """Return the addresses behind each Service that has any; None without readable rules."""
    process = await asyncio.create_subprocess_exec(
        *("nft", "--numeric", "list", "table", "ip", "kube-proxy"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    text, _ = await process.communicate()
    return None if process.returncode else routes_in(text.decode(), namespace)


def routes_in(rules: str, namespace: str) -> dict[str, frozenset[str]]:
    """Return the addresses behind each Service of a namespace. Pure.

    Args:
        rules: kube-proxy's table as `nft list table` prints it.
        namespace: That of the Services.
    """
    found: dict[str, frozenset[str]] = {}
    for owner, service, body in _CHAIN.findall(rules):
        if owner == namespace:
            addresses = frozenset(_ENDPOINT.findall(body))
            found[service] = found.get(service, frozenset()) | addresses
    return found
