"""`spec.rollout.canary`: the steps in which a new revision receives the requests of a route.

`decide.rollout.canary` decides how a canary advances.
"""

from dataclasses import dataclass

from .fields import Fields

__all__ = ["Canary", "CanaryStep", "parse_canary"]

STEP_LIMIT = 20
LONGEST_PAUSE_SECONDS = 604_800


@dataclass(frozen=True, slots=True)
class CanaryStep:
    """A share of the requests in percent. A pause of None lasts until the step is approved."""

    weight: int
    pause_seconds: int | None = None


DEFAULT_STEPS = (CanaryStep(10, 300), CanaryStep(50, 300))
WRITTEN_DEFAULT_STEPS = [
    {"weight": step.weight, "pauseSeconds": step.pause_seconds} for step in DEFAULT_STEPS
]


@dataclass(frozen=True, slots=True)
class Canary:
    """`spec.rollout.canary`. `keep_seconds` applies to every replaced pod behind a route."""

    steps: tuple[CanaryStep, ...] = DEFAULT_STEPS
    keep_seconds: int = 60


def parse_canary(fields: Fields) -> Canary:
    """Read the section and fill in its defaults; record invalid values as problems."""
    canary = Canary(
        steps=_parse_steps(fields),
        keep_seconds=fields.integer("keepSeconds", 60, 10, 86400),
    )
    fields.unknown()
    return canary


def _parse_steps(fields: Fields) -> tuple[CanaryStep, ...]:
    if fields.raw("steps", WRITTEN_DEFAULT_STEPS) in (None, WRITTEN_DEFAULT_STEPS):
        return DEFAULT_STEPS
    before = len(fields.problems)
    steps = tuple(map(_parse_step, fields.children("steps", STEP_LIMIT, "steps")))
    if len(fields.problems) > before:
        return DEFAULT_STEPS
    weights = [step.weight for step in steps]
    if not weights or weights != sorted(set(weights)):
        expected = "one or more weights that increase, such as 10 and then 50"
        fields.reject("steps", weights, expected)
        return DEFAULT_STEPS
    return steps


def _parse_step(fields: Fields) -> CanaryStep:
    if not fields.has("weight"):
        fields.require("weight", "a whole number from 1 to 99")
    weight = fields.integer("weight", 0, 1, 99)
    pause = fields.optional_integer("pauseSeconds", 0, LONGEST_PAUSE_SECONDS)
    fields.unknown()
    return CanaryStep(weight, pause)
