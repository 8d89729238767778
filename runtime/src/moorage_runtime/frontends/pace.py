"""How fast a request must arrive; HTTP bodies and gRPC messages have the same rule. Pure."""


class Pace:
    """Judges each grace period by itself, so that a quick start does not excuse a stall.

    Args:
        seconds: The grace period.
        bytes_per_second: Slowest average pace within it.
        now: Time of the server's clock, at which the first period begins.
    """

    __slots__ = ("_least_bytes", "_received", "_seconds", "_since")

    def __init__(self, seconds: float, bytes_per_second: int, now: float) -> None:
        self._seconds = seconds
        self._least_bytes = seconds * bytes_per_second
        self.restart(now, 0)

    def restart(self, now: float, received: int) -> None:
        """Begin a period; `received` is the number of bytes so far."""
        self._since = now
        self._received = received

    def is_too_slow(self, now: float, received: int) -> bool:
        """Whether a period has ended that brought too little; the next one then begins."""
        if now - self._since <= self._seconds:
            return False
        is_slow = received - self._received < self._least_bytes
        self.restart(now, received)
        return is_slow
