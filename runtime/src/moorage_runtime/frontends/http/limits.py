"""What the HTTP listener tolerates of its clients: sizes, counts and times."""

from typing import Final

import msgspec

MIB: Final = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one listener; every one is enforced, none can be switched off.

    Attributes:
        body_bytes: Largest body, also after decompression; 64 MiB as other servers have it.
        head_bytes: Request line and headers together, and likewise the trailers.
        target_bytes: Longest request target (path and query).
        header_count: Most header lines in one request.
        connections: Most open connections; a further one gets 503.
        pipelined_requests: Requests that may wait on one connection before it is read no more.
        head_seconds: Time from a request's first byte to the end of its headers.
        body_grace_seconds: Time that a body may take whatever its size.
        body_bytes_per_second: Slowest average pace of a body beyond the grace time. One
            kilobyte is far below any usable link; it is there to end trickling clients.
        idle_seconds: How long a connection is kept without a request. More than the 60 s after
            which common load balancers drop theirs, so that they close first.
        write_seconds: How long a client may take no byte of a waiting answer.
        linger_seconds: How long input is still read and dropped after an answer that ends the
            connection early; closing at once could destroy that answer on its way.
    """

    body_bytes: int = 64 * MIB
    head_bytes: int = 32 * 1024
    target_bytes: int = 8 * 1024
    header_count: int = 100
    connections: int = 4096
    pipelined_requests: int = 16
    head_seconds: float = 10.0
    body_grace_seconds: float = 10.0
    body_bytes_per_second: int = 1024
    idle_seconds: float = 75.0
    write_seconds: float = 60.0
    linger_seconds: float = 2.0
