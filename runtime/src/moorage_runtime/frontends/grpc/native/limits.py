"""What the native gRPC listener tolerates of its clients: sizes, counts and times."""

from typing import Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one listener; every one is enforced, none can be switched off.

    Attributes:
        message_bytes: Largest request message, also after decompression.
        connections: Most open connections; a further one is closed at once.
        streams: Most calls under way on one connection; clients are told, and a further one is
            refused with REFUSED_STREAM, which clients may send again. It bounds the calls of one
            read, and so the time that the event loop gives to one client.
        header_list_bytes: Largest list of headers, counted as RFC 9113, 6.5.2, does; gRPC's
            usual 16 KiB. Clients are told; a call beyond it is RESOURCE_EXHAUSTED.
        header_list_end_bytes: A list beyond this is not kept, and ends the connection.
        header_count: Most headers of one call; more end the connection.
        frame_bytes: Largest frame that a client may send; HTTP/2's own 16 KiB make four times as
            many, and from 128 KiB on each would be memory fetched from the system for itself.
        stream_window_bytes: Bytes of one call that may be on their way unread.
        connection_window_bytes: The same for all calls of one connection.
        inbox_bytes: Bytes of messages that a streaming method has not taken yet; beyond it the
            client's window is not opened again.
        outbox_bytes: Bytes of a streaming answer that the client has not taken yet; beyond it the
            method is not asked for its next message.
        resets: Streams that a client may cancel at once, and further ones a second (rapid reset,
            CVE-2023-44487).
        control_frames: PING, SETTINGS and empty DATA that a client may send between two ticks of
            the clock, which are a second apart; an ordinary one sends a few a minute, one that
            measures its bandwidth one a round trip.
        open_seconds: Time from the connection to the client's first SETTINGS.
        message_grace_seconds: Time that a single request message may take whatever its size.
        message_bytes_per_second: Slowest average pace beyond that, far below any usable link.
        write_seconds: How long a client may take no byte off a full socket.
        linger_seconds: How long input is still read and dropped after the last frame; closing
            with unread input could destroy that frame on its way.
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
    linger_seconds: float = 2.0

    @property
    def step_bytes(self) -> int:
        """How much of a call is received before its client's windows are opened again.

        Fewer steps are cheaper; but all calls of a connection together must never hold back the
        whole of its window: 256 calls of 32 KiB are half of 16 MiB.
        """
        return min(self.stream_window_bytes, self.connection_window_bytes // self.streams) // 2
