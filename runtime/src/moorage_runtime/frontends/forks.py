"""What a process that a model's code forks must not keep of the server: signals and sockets.

model -> multiprocessing -> fork -> leave, in the new process

Otherwise a signal for that process would reach the server through the event loop's own socket:
``multiprocessing.Pool`` sends SIGTERM to its processes, which would end the server. And a
connection that the server closes would stay open as long as that process runs, so its client would
wait forever. So would the supervisor of a worker that has ended.
"""

import contextlib
import os
import pathlib
import signal
import socket
import stat
from collections.abc import Collection, Iterator
from functools import partial

_DESCRIPTORS = pathlib.Path("/dev/fd")


def prepare(ports: Collection[int], link: int | None) -> None:
    """Let every process that is forked from now on leave the server.

    Args:
        ports: The server's ports; the caller may add them later.
        link: Descriptor of the connection to the supervisor, in a worker.
    """
    os.register_at_fork(after_in_child=partial(_leave, ports, link))


def _leave(ports: Collection[int], link: int | None) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (*_sockets(ports), *(() if link is None else (link,))):
        # objects of the event loop refer to this number: it must not become that of another file
        os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _sockets(ports: Collection[int]) -> Iterator[int]:
    """Descriptors of the sockets of these ports: those that listen, and their connections."""
    for entry in list(_DESCRIPTORS.iterdir()):
        descriptor = int(entry.name)
        # one of them was that of the folder
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            found = socket.socket(fileno=descriptor)
            try:
                if found.family != socket.AF_UNIX and found.getsockname()[1] in ports:
                    yield descriptor
            finally:
                found.detach()
