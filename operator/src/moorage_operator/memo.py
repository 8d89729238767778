"""Results of pure functions, kept as long as the object that they are about; pure.

    store: one parsed model for many passes --> @by_identity: one rendering --> plan

A spec is parsed once and looked at by pass after pass. What is rendered from it takes most of a
pass, and stays the same as long as the spec is the same object. To compare large values would cost
as much as to render them again, so identity decides; an equal object of its own costs one more
rendering and nothing else. Once the store lets the parsed model go, its renderings go too.
"""

import weakref
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["by_identity"]

P = ParamSpec("P")
T = TypeVar("T")

KEPT = 64
"""Results about one object: a dozen functions, some with a variant for each protocol."""

_about: dict[int, tuple[weakref.ref[Any], dict[Any, tuple[Any, Any]]]] = {}


def by_identity(function: Callable[P, T]) -> Callable[P, T]:
    """A pure function that gives the same result again for the same arguments.

    The first argument is the object that the result is about, and must have room for a weak
    reference. Texts, truth values and None are the same where they are equal, all else where it is
    the same object; so arguments must not be changed after the call, and the result by nobody.
    """

    @wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> T:
        others = (*args[1:], *kwargs.values())
        key = (function, *map(_mark, others), *kwargs)
        kept = _results_about(args[0])
        found = kept.get(key)
        if found:
            return found[1]
        result = function(*args, **kwargs)
        kept[key] = others, result  # what is kept alive has its identity to itself
        if len(kept) > KEPT:
            del kept[next(iter(kept))]
        return result

    return remembered


def _results_about(owner: object) -> dict[Any, tuple[Any, Any]]:
    number = id(owner)
    found = _about.get(number)
    if found is None:
        forget = partial(_about.pop, number)  # by value: when Python ends the module goes first
        reference = weakref.ref(owner, lambda _: forget(None))
        found = _about[number] = reference, {}
    return found[1]


def _mark(value: Any) -> tuple[str, Any]:
    if value is None or isinstance(value, str | bool):
        return "value", value
    return "object", id(value)
