"""What a connection asks of the socket beneath its transport, once, when it is made."""

import asyncio
import socket
import ssl


def speaks_http2(transport: asyncio.Transport) -> bool:
    """Without TLS by prior knowledge, with it by ALPN (RFC 9113, 3.2 and 3.3)."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return tls is None or tls.selected_alpn_protocol() == "h2"


def keep_alive(transport: asyncio.Transport) -> None:
    """Let the kernel notice clients that vanished; calls may be silent for hours."""
    connected: socket.socket | None = transport.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
