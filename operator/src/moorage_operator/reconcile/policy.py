"""The limits and delays of the work queue; pure."""

from dataclasses import dataclass

__all__ = ["Policy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The parameters of the work queue.

    Attributes:
        passes: The maximum number of concurrent reconciles, apart from changes of readiness, which
            are not limited. A reconcile that waits to create children takes about 50 KiB.
        turn: Every so many keys, the queue returns the one that has waited longest, regardless
            of urgency.
        rest_seconds: The minimum time between two reconciles of a model for routine changes.
        retry_first_seconds: The maximum delay after the first failure.
        retry_last_seconds: The maximum delay after any failure.
    """

    passes: int = 1024
    turn: int = 8
    rest_seconds: float = 0.5
    retry_first_seconds: float = 0.25
    retry_last_seconds: float = 300.0

    def retry_seconds(self, failures: int, jitter: float) -> float:
        """Return the delay after this many consecutive failures.

        The maximum doubles with each failure, from 0.25 s to 5 min. The delay is at least half of
        it: after the third failure, from [0.5, 1) s.

        Args:
            failures: At least one.
            jitter: A number from [0, 1).
        """
        # 2**11 times the first delay exceeds the last one; the cap keeps the number small.
        bound = self.retry_first_seconds * 2.0 ** min(failures - 1, 11)
        return min(self.retry_last_seconds, bound) * (0.5 + jitter / 2)
