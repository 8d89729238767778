"""Checks and configures the socket of a new connection."""

import asyncio
import socket
import ssl


def speaks_http2(transport: asyncio.Transport) -> bool:
    """Whether the client speaks HTTP/2: by prior knowledge without TLS, by ALPN with it (RFC 9113,
    3.2 and 3.3).
    """
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return tls is None or tls.selected_alpn_protocol() == "h2"


def keep_alive(transport: asyncio.Transport) -> None:
    """Enable keepalive to detect vanished clients; calls may be silent for hours."""
    connected: socket.socket | None = transport.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
