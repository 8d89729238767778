"""Limits of the libnghttp2 listener for clients: sizes, counts and times."""

from typing import Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB
# Overhead per header, in addition to its name and value (RFC 9113, 6.5.2).
_FIELD_BYTES: Final = 32


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one listener; all are enforced and none can be disabled.

    Attributes:
        message_bytes: Maximum size of a request message, also after decompression.
        connections: Maximum number of open connections; further ones are closed at once.
        streams: Maximum number of concurrent calls per connection. Clients are told; a further
            call is refused with REFUSED_STREAM, which clients may retry. It limits the calls of
            one read, and so the time that the event loop spends on one client.
        header_list_bytes: Maximum size of all headers, counted as in RFC 9113, 6.5.2; 16 KiB is
            usual for gRPC. Clients are told; a call that exceeds it is RESOURCE_EXHAUSTED.
        header_list_end_bytes: A larger list is discarded and ends the connection.
        header_count: Maximum number of headers per call; more are RESOURCE_EXHAUSTED.
        frame_bytes: Maximum size of a client's frame. HTTP/2's default of 16 KiB causes four times
            as many frames; from 128 KiB, each frame would be allocated separately by the system.
        stream_window_bytes: Maximum number of unread bytes in transit for one call.
        connection_window_bytes: The same for all calls of one connection.
        inbox_bytes: Bytes of messages that a streaming method has not taken yet; above it, the
            client's window is not reopened.
        outbox_bytes: Bytes of a streaming response that the client has not received yet; above it,
            the method is not asked for its next message.
        resets: Number of streams that a client may cancel at once, and per second after that
            (rapid reset, CVE-2023-44487).
        control_frames: Number of PING, SETTINGS and empty DATA frames between two ticks of the
            clock, one second apart. A typical client sends a few per minute, and one that measures
            its bandwidth sends one per round trip.
        open_seconds: Time from the connection to the client's first SETTINGS.
        message_grace_seconds: Time that any request message may take, regardless of its size.
        message_bytes_per_second: Minimum average rate after that, far below any usable link.
        write_seconds: Maximum time without progress of a client that receives responses, because
            its socket is full or its HTTP/2 window is closed.
        idle_seconds: How long a connection without a call stays open; clients reconnect on demand.
        evict_seconds: If all connections are in use, a connection without a call for this time is
            closed for a new one.
        blocked_bytes: Maximum number of response bytes that one client has not received; a further
            response is replaced by RESOURCE_EXHAUSTED. A single response may be larger.
        blocked_total_bytes: The same for all clients together.
        linger_seconds: How long input is read and discarded after the last frame; closing with
            unread input could destroy that frame in transit.
    """

    message_bytes: int = 64 * MIB
    connections: int = 4096
    streams: int = 256
    header_list_bytes: int = 16 * KIB
    header_list_end_bytes: int = 64 * KIB
    header_count: int = 128
    frame_bytes: int = 64 * KIB
    stream_window_bytes: int = 4 * MIB
    connection_window_bytes: int = 16 * MIB
    inbox_bytes: int = 1 * MIB
    outbox_bytes: int = 1 * MIB
    resets: tuple[int, int] = (1000, 100)
    control_frames: int = 2000
    open_seconds: float = 10.0
    message_grace_seconds: float = 30.0
    message_bytes_per_second: int = 1024
    write_seconds: float = 60.0
    idle_seconds: float = 300.0
    evict_seconds: float = 1.0
    blocked_bytes: int = 256 * MIB
    blocked_total_bytes: int = 1024 * MIB
    linger_seconds: float = 2.0

    @property
    def header_end_count(self) -> int:
        """Maximum number of stored headers: the largest list of the smallest headers."""
        return self.header_list_end_bytes // _FIELD_BYTES

    @property
    def step_bytes(self) -> int:
        """How much of a call is received before its client's windows are reopened.

        Fewer steps are cheaper, but all calls of a connection together must never hold back its
        whole window: 256 calls of 32 KiB are half of 16 MiB.
        """
        return min(self.stream_window_bytes, self.connection_window_bytes // self.streams) // 2
