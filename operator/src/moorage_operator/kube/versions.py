"""Compares resource versions; pure."""

__all__ = ["is_newer", "is_rewound"]


def is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion is later than another one of the same kind.

    Source: Kubernetes API concepts, "Resource versions": for built-in and custom resources they
    are decimal integers that may be compared. For others, the later arrival counts.
    """
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than


def is_rewound(version: str, seen: str) -> bool:
    """Whether a collection has a lower version than before, as after a restore of etcd.

    Versions that are not numbers prove nothing.
    """
    return version.isdigit() and seen.isdigit() and int(version) < int(seen)
