"""Closes a listening socket without losing clients that are already connected to it.

The kernel completes connections and queues them. Closing the socket would reset the queued ones,
so they are accepted first.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable

Protocols = Callable[[], asyncio.BaseProtocol]


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
