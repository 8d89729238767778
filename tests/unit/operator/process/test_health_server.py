"""The addresses on which health and metrics are served."""

import socket

import httpx
import pytest

from moorage_operator.process.health_server import HealthServer

BOTH = ("127.0.0.1", "[::1]")


async def answered(host: str) -> list[str]:
    """The addresses of this machine that answer while the server listens on a host."""
    found: list[str] = []
    server = HealthServer(host, 0, live=list, ready=list, metrics=bytes)
    async with server, httpx.AsyncClient() as client:
        for address in BOTH:
            try:
                answer = await client.get(f"http://{address}:{server.port}/livez")
            except httpx.ConnectError:
                continue
            assert answer.text == "ok"
            found.append(address)
    return found


async def test_all_addresses_are_those_of_both_families() -> None:
    assert await answered("::") == list(BOTH)


async def test_all_addresses_are_those_of_ipv4_on_a_machine_without_ipv6(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    assert await answered("::") == ["127.0.0.1"]


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
async def test_one_address_is_that_address(host: str, address: str) -> None:
    assert await answered(host) == [address]
