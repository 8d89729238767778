"""The names that the API server accepts for objects and namespaces; pure."""

import re

__all__ = ["NAMESPACE_NAME", "NAME_LIMIT", "OBJECT_NAME", "is_namespace_name", "is_object_name"]

# RFC 1123.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_OBJECT = re.compile(rf"{_LABEL}(\.{_LABEL})*")

NAME_LIMIT = 253
OBJECT_NAME = (
    f"at most {NAME_LIMIT} lowercase letters, digits, '-' and '.', with a letter or digit at each "
    "end"
)
NAMESPACE_NAME = "at most 63 lowercase letters, digits and '-', with a letter or digit at each end"


def is_object_name(text: str) -> bool:
    """Whether a text can be the name of an object."""
    return len(text) <= NAME_LIMIT and _OBJECT.fullmatch(text) is not None


def is_namespace_name(text: str) -> bool:
    """Whether a text can be the name of a namespace."""
    return len(text) <= 63 and _NAMESPACE.fullmatch(text) is not None
