"""Limits of the HTTP listener for clients: sizes, counts and times."""

from typing import Final

import msgspec

MIB: Final = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one listener; all are enforced and none can be disabled.

    Attributes:
        body_bytes: Maximum size of a body, also after decompression; 64 MiB, as in other servers.
        head_bytes: Maximum size of request line and headers, and likewise of the trailers.
        target_bytes: Maximum length of a request target (path and query).
        header_count: Maximum number of header lines in one request.
        connections: Maximum number of open connections; a further one gets 503.
        pipelined_requests: Requests that may wait on one connection before it is not read any
            more.
        head_seconds: Maximum time from a request's first byte to the end of its headers.
        body_grace_seconds: Time that any body may take, regardless of its size.
        body_bytes_per_second: Minimum average rate of a body after the grace period. One kilobyte
            is far below any usable link; it stops clients that send a byte at a time.
        idle_seconds: How long a connection without a request stays open. Common load balancers
            close theirs after 60 s; the longer time makes them close first.
        evict_seconds: If all connections are open, a connection without a complete head for this
            time is closed for a new one, so that idle and slow clients cannot block health checks.
        stop_idle_seconds: The same after the port is closed: a request may still be in transit.
        write_seconds: Maximum time without progress of a client that receives a response.
        linger_seconds: How long input is read and discarded after a response that closes the
            connection early; closing at once could destroy that response in transit.
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
    evict_seconds: float = 1.0
    stop_idle_seconds: float = 1.0
    write_seconds: float = 60.0
    linger_seconds: float = 2.0
