"""The one way in which a name that is too long is cut: readable, with a hash of the whole.

Names and labels of children stand on it, so that two models never share one.
"""

import hashlib

__all__ = ["LABEL_LIMIT", "shortened", "with_hash"]

LABEL_LIMIT = 63  # of a label value and of a DNS label, in characters
HASH_LENGTH = 8


def shortened(name: str) -> str:
    """The name itself where it fits a label value (63 characters), else cut, with a hash."""
    return name if len(name) <= LABEL_LIMIT else with_hash(name, name)


def with_hash(readable: str, whole: str) -> str:
    """As much of `readable` as fits, and a hash of `whole`; at most 63 characters."""
    digest = hashlib.sha256(whole.encode()).hexdigest()[:HASH_LENGTH]
    return f"{readable[: LABEL_LIMIT - HASH_LENGTH - 1].rstrip('-.')}-{digest}"
