"""Results of pure functions, kept while the same objects are asked about again; pure.

    store: one parsed model for many passes --> @by_identity: one rendering --> plan

A spec is parsed once and looked at by pass after pass. What is rendered from it takes most of a
pass, and stays the same as long as the spec is the same object. To compare large values would cost
as much as to render them again, so identity decides; an equal object of its own costs one more
rendering and nothing else.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["by_identity"]

P = ParamSpec("P")
T = TypeVar("T")

KEPT = 256
"""Results of a function: those of the models that the store keeps open, with a few variants."""


def by_identity(function: Callable[P, T]) -> Callable[P, T]:
    """A pure function that gives the same result again for the same arguments.

    Texts, truth values and None are the same where they are equal, all else where it is the same
    object; so arguments must not be changed after the call, and the result by nobody.
    """
    kept: dict[tuple[Any, ...], tuple[tuple[Any, ...], T]] = {}

    @wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> T:
        given = (*args, *kwargs.values())
        key = (*map(_mark, given), *kwargs)
        found = kept.get(key)
        if found:
            return found[1]
        result = function(*args, **kwargs)
        kept[key] = given, result  # what is kept alive has its identity to itself
        if len(kept) > KEPT:
            del kept[next(iter(kept))]
        return result

    return remembered


def _mark(value: Any) -> tuple[str, Any]:
    if value is None or isinstance(value, str | bool):
        return "value", value
    return "object", id(value)
