"""Opens a listening socket, says why it cannot be opened, and closes it without losing clients.

The kernel completes connections and queues them. Closing the socket would reset the queued ones,
so they are accepted first. To leave no gap between the last accept and the close, the kernel drops
new SYNs from before that accept on. A client in that gap retries its SYN and gets a refusal before
it has sent a request.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import socket
import ssl
import struct
from collections.abc import Callable

from moorage_runtime.values.errors import ListenError

Protocols = Callable[[], asyncio.BaseProtocol]

ALL = "::"
"""All addresses, of IPv6 and of IPv4."""
_ALL_IPV4 = "0.0.0.0"

SO_ATTACH_FILTER = 26
"""asm-generic/socket.h; the socket module does not name it."""
NO_SYN = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the byte of the TCP flags (RFC 9293, section 3.1)
        (0x45, 0, 1, 0x02),  # with SYN: the next instruction, otherwise the one after it
        (0x06, 0, 0, 0),  # drop the packet
        (0x06, 0, 0, 0xFFFFFFFF),  # keep all of it
    )
)
"""A socket filter that drops what opens a connection (socket(7), SO_ATTACH_FILTER)."""


async def create(
    make: Protocols,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None,
    backlog: int,
    reuse_port: bool,
) -> asyncio.Server:
    """Listen, as the event loop's ``create_server``, which would serve IPv6 only with "::".

    Raises:
        OSError: The address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    if host == ALL:
        sock = bind(host, port, reuse_port=reuse_port)
        return await loop.create_server(make, sock=sock, ssl=tls, backlog=backlog)
    return await loop.create_server(
        make, host, port, ssl=tls, backlog=backlog, reuse_port=reuse_port
    )


def bind(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """A socket that is bound and does not listen yet.

    Args:
        host: An address. "::" is all addresses, only those of IPv4 on a machine without IPv6.
        port: Port, or 0 for any free one.
        reuse_port: Other sockets share the port.

    Raises:
        OSError: The address cannot be bound.
    """
    if host == ALL and not socket.has_dualstack_ipv6():
        host = _ALL_IPV4
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if host == ALL:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def refused(setting: str, host: str, port: int, error: Exception) -> ListenError:
    """The error for a port that cannot be opened, which names the setting to change.

    Args:
        setting: Setting of the port.
        host: Address.
        port: Number of the port.
        error: What was raised.
    """
    number = (error.errno if isinstance(error, OSError) else None) or 0
    # a failed resolution of a name has a number of its own, below 0
    reason = os.strerror(number) if number > 0 else getattr(error, "strerror", "") or str(error)
    if number in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT} or isinstance(error, socket.gaierror):
        return ListenError(
            f"--host (MOORAGE_HOST): '{host}' is invalid: {reason}: must be an address of this "
            "machine"
        )
    return ListenError(f"{setting} {port} cannot be opened: {reason}: use a free port")


async def close(listener: asyncio.Server, make: Protocols, tls: ssl.SSLContext | None) -> None:
    """Stop listening, and serve the clients in the queue.

    Args:
        listener: The result of ``create_server``.
        make: Creates the protocol of a connection, as for ``create_server``.
        tls: As for ``create_server``.
    """
    loop = asyncio.get_running_loop()
    # the queue belongs to the socket, which lives as long as one of its descriptors
    sockets = [socket.socket(fileno=os.dup(each.fileno())) for each in listener.sockets]
    listener.close()
    accepted: list[socket.socket] = []
    for listening in sockets:
        listening.setblocking(False)  # noqa: FBT003 - it takes no keyword
        ignore_new_clients(listening)
        with contextlib.suppress(OSError):  # BlockingIOError: the queue is empty
            while True:
                accepted.append(listening.accept()[0])
        listening.close()
    for connection in accepted:
        connection.setblocking(False)  # noqa: FBT003 - it takes no keyword
    serving = [loop.connect_accepted_socket(make, each, ssl=tls) for each in accepted]
    await asyncio.gather(
        *serving, return_exceptions=True
    )  # a client may have left in the meantime


def ignore_new_clients(listening: socket.socket) -> None:
    """Let the kernel drop the first packet of each new connection; those in the queue stay."""
    program = ctypes.create_string_buffer(NO_SYN, len(NO_SYN))
    filters = struct.pack("HP", len(NO_SYN) // 8, ctypes.addressof(program))
    with contextlib.suppress(OSError):  # sandboxes and other systems have no socket filters
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filters)
