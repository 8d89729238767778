"""`spec.rollout.canary`: where a new revision gets its share of the requests, and how fast.

What comes of it is decided in `moorage_operator.canary`.

Source: Gateway API v1, ParentReference and Hostname.
"""

import re
from dataclasses import dataclass

from .fields import Fields

__all__ = ["Canary", "CanaryStep", "ParentRef", "parse_canary"]

STEP_LIMIT = 20
PARENT_LIMIT = 8
HOSTNAME_LIMIT = 16
LONGEST_PAUSE_SECONDS = 604_800

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
HOSTNAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")
OBJECT_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
NAME_LIMIT = 253
NAMESPACE_LIMIT = 63


@dataclass(frozen=True, slots=True)
class ParentRef:
    """A Gateway; an empty namespace is the model's own, an empty section every listener."""

    name: str
    namespace: str = ""
    section_name: str = ""


@dataclass(frozen=True, slots=True)
class CanaryStep:
    """A share of the requests, in percent; a pause of None lasts until somebody approves."""

    weight: int
    pause_seconds: int | None = None


DEFAULT_STEPS = (CanaryStep(10, 300), CanaryStep(50, 300))


@dataclass(frozen=True, slots=True)
class Canary:
    """`spec.rollout.canary`; without `parent_refs` there is no route."""

    parent_refs: tuple[ParentRef, ...] = ()
    hostnames: tuple[str, ...] = ()
    steps: tuple[CanaryStep, ...] = DEFAULT_STEPS
    keep_seconds: int = 60


def parse_canary(fields: Fields) -> Canary:
    """The section with its defaults; what is wrong becomes problems."""
    canary = Canary(
        parent_refs=_parse_parents(fields),
        hostnames=_parse_hostnames(fields),
        steps=_parse_steps(fields),
        keep_seconds=fields.integer("keepSeconds", 60, 10, 86400),
    )
    fields.unknown()
    if fields.is_given and not canary.parent_refs:
        fields.reject("parentRefs", [], "the Gateways that take the route, such as [{name: web}]")
    return canary


def _parse_parents(fields: Fields) -> tuple[ParentRef, ...]:
    return tuple(
        _parse_parent(item) for item in _objects(fields, "parentRefs", PARENT_LIMIT, "Gateways")
    )


def _parse_parent(fields: Fields) -> ParentRef:
    parent = ParentRef(
        name=_parse_name(fields, "name", NAME_LIMIT),
        namespace=_parse_name(fields, "namespace", NAMESPACE_LIMIT),
        section_name=_parse_name(fields, "sectionName", NAME_LIMIT),
    )
    if fields.raw("name") is None:
        fields.reject("name", None, "the name of a Gateway")
    fields.unknown()
    return parent


def _parse_name(fields: Fields, name: str, limit: int) -> str:
    text = fields.text(name)
    if text and (len(text) > limit or not OBJECT_NAME.fullmatch(text)):
        fields.reject(name, text, f"a name of lower-case letters, digits and '-', at most {limit}")
    return text


def _parse_hostnames(fields: Fields) -> tuple[str, ...]:
    found = fields.texts("hostnames")
    if len(found) > HOSTNAME_LIMIT:
        fields.reject("hostnames", f"{len(found)} names", f"at most {HOSTNAME_LIMIT} names")
    for name in found:
        if len(name) > NAME_LIMIT or not HOSTNAME.fullmatch(name):
            fields.reject("hostnames", name, "a host such as iris.example.com or *.example.com")
    return found


def _parse_steps(fields: Fields) -> tuple[CanaryStep, ...]:
    if fields.raw("steps") is None:
        return DEFAULT_STEPS
    steps = tuple(_parse_step(item) for item in _objects(fields, "steps", STEP_LIMIT, "steps"))
    weights = [step.weight for step in steps]
    if not weights or weights != sorted(set(weights)):
        expected = "at least one step, and in each a greater weight than before, such as 10, 50"
        fields.reject("steps", weights, expected)
        return DEFAULT_STEPS
    return steps


def _parse_step(fields: Fields) -> CanaryStep:
    weight = fields.integer("weight", 1, 1, 99)
    if fields.raw("weight") is None:
        fields.reject("weight", None, "a whole number from 1 to 99")
    pause = None
    if fields.raw("pauseSeconds") is not None:
        pause = fields.integer("pauseSeconds", 0, 0, LONGEST_PAUSE_SECONDS)
    fields.unknown()
    return CanaryStep(weight, pause)


def _objects(fields: Fields, name: str, limit: int, what: str) -> list[Fields]:
    listed = fields.mappings(name)
    if len(listed) > limit:
        fields.reject(name, f"{len(listed)} {what}", f"at most {limit} {what}")
        return []
    return [
        Fields(item, f"{fields.at(name)}[{index}]", fields.problems)
        for index, item in enumerate(listed)
    ]
