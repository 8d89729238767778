"""Which of two versions of an object is the later one; pure."""

__all__ = ["is_newer"]


def is_newer(version: str, than: str) -> bool:
    """Whether a resourceVersion is later than another of the same object.

    Source: Kubernetes API concepts, "Resource versions": for built-in and custom resources they
    are decimal integers that may be compared. Where one is not, the later arrival counts.
    """
    if version.isdigit() and than.isdigit():
        return int(version) > int(than)
    return version != than
