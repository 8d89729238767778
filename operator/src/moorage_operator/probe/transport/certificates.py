"""When the certificates of model servers expire, as seen in verified TLS handshakes.

    tls (handshake) --> Secured.saw --> **Certificates** --> metrics, on each scrape

A server whose certificate has expired fails the handshake, so its last date stays known. Servers
that are gone are forgotten after a while; who reads the dates names the servers that exist.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

__all__ = ["Certificates"]

KEPT = 50_000
"""The number of servers that are remembered, each with 200 bytes."""

KEEP_SECONDS = 86400.0
"""How long a server is remembered: longer than any interval between polls."""


class Certificates:
    """The expiry of the certificates by server.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By Secret, because an address is reused; with the expiry and the time of the handshake.
        self._seen: OrderedDict[tuple[str, str, str], tuple[float, float]] = OrderedDict()

    def saw(self, namespace: str, secret: str, host: str, expires_at: float) -> None:
        """Remember a verified certificate.

        Args:
            namespace: The namespace of the model.
            secret: The Secret that the model names.
            host: The address of the server.
            expires_at: Unix time.
        """
        now = self._clock()
        key = namespace, secret, host
        self._seen[key] = expires_at, now
        self._seen.move_to_end(key)
        while self._seen:
            oldest = next(iter(self._seen.values()))
            if len(self._seen) <= KEPT and now - oldest[1] <= KEEP_SECONDS:
                return
            self._seen.popitem(last=False)

    def earliest(self, namespace: str, secret: str, hosts: Iterable[str]) -> float | None:
        """Return when the first certificate of these servers expires; None if none was seen."""
        found = (self._seen.get((namespace, secret, host)) for host in hosts)
        return min((each[0] for each in found if each), default=None)
