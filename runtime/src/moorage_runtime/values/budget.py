"""A limit on the bytes that all requests of the process hold together. Pure.

A frontend counts a body while it arrives, and the runner counts the tensors until the answer.
"""

from moorage_runtime.values.errors import ServerBusy


class ByteBudget:
    """Bytes of all requests; used in the event loop only.

    Args:
        limit: Maximum bytes at a time; 0 for no limit.

    Attributes:
        taken: Bytes that all requests hold now.
    """

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self.taken = 0

    def take(self, size: int) -> None:
        """Count a new request; the only request may have any size.

        Raises:
            ServerBusy: The other requests leave too little room.
        """
        self.resize(0, size)

    def resize(self, size: int, to: int) -> None:
        """Change what a request holds.

        Raises:
            ServerBusy: It grows, and the other requests leave too little room.
        """
        others = self.taken - size
        if self._limit and to > size and others and others + to > self._limit:
            raise ServerBusy(
                f"the server's requests hold {others} bytes, and this one has {to}: the limit is "
                f"{self._limit}; try again later or raise --max-inflight-bytes"
            )
        self.taken = others + to

    def give_back(self, size: int) -> None:
        """End a request of this size."""
        self.taken -= size
