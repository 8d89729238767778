"""Bytes that a reader of requests receives without a socket, and what it makes of them."""

from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.reader import RequestReader
from moorage_runtime.frontends.http.received import Received

SMALL = Limits(body_bytes=64, head_bytes=512, target_bytes=64, header_count=8)


def read(data, limits=SMALL, sizes=None, admission=None):
    """Everything received from the bytes, which are passed whole or in pieces of these sizes."""
    reader = RequestReader(limits, admission)
    rest = memoryview(data)
    pieces = iter(sizes or [len(data)])
    while rest:
        count = min(next(pieces, 1), len(rest))
        if reader.direct is not None:
            count = min(count, len(reader.direct))
            reader.direct[:count] = rest[:count]
            reader.filled(count)
        else:
            # the buffer is reused at once, as in the listener
            scratch = bytearray(rest[:count])
            reader.feed(memoryview(scratch))
            scratch[:] = b"?" * count
        rest = rest[count:]
    return reader


def seen(reader):
    return [
        (r.request.method, r.request.path, bytes(r.request.body), r.keep_alive)
        if isinstance(r, Received)
        else r.status
        for r in reader.received
    ]


GET = ("GET", "/", b"", True)
