"""`spec.rollout`: how one revision takes the place of another, read and checked.

What comes of it is decided in `moorage_operator.rollout`.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from .canary import Canary, parse_canary
from .fields import Fields

__all__ = ["BlueGreen", "OnFailure", "Rollout", "Strategy", "parse_rollout"]

PERCENTAGE = re.compile(r"(100|[1-9]?[0-9])%")
MAX_SURGE = "25%"
MAX_UNAVAILABLE = 0
SHARE_EXPECTED = "a whole number of pods, or a percentage of them such as '25%'"


class Strategy(StrEnum):
    """How the pods of a new revision come beside, or after, those of the earlier one."""

    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"
    BLUE_GREEN = "BlueGreen"
    CANARY = "Canary"

    @property
    def stands_apart(self) -> bool:
        """Whether each revision has a Deployment of its own."""
        return self in {Strategy.BLUE_GREEN, Strategy.CANARY}


class OnFailure(StrEnum):
    """What becomes of a revision that does not come to serve."""

    ROLLBACK = "Rollback"
    PAUSE = "Pause"


@dataclass(frozen=True, slots=True)
class BlueGreen:
    """`spec.rollout.blueGreen`: how long the earlier revision is kept after the switch."""

    keep_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Rollout:
    """`spec.rollout`; a deadline of None is made from `health.startupTimeoutSeconds`.

    `max_surge` and `max_unavailable` are pods, or a percentage of them, as in a Deployment. The
    route of `canary` is there whatever the strategy, so that to change that ends no traffic.
    """

    strategy: Strategy = Strategy.ROLLING_UPDATE
    max_surge: int | str = MAX_SURGE
    max_unavailable: int | str = MAX_UNAVAILABLE
    progress_deadline_seconds: int | None = None
    on_failure: OnFailure = OnFailure.ROLLBACK
    blue_green: BlueGreen = BlueGreen()
    canary: Canary = field(default_factory=Canary)


def parse_rollout(fields: Fields) -> Rollout:
    """The rollout with its defaults; what is wrong becomes problems."""
    rollout = Rollout(
        strategy=fields.choice("strategy", Strategy.ROLLING_UPDATE),
        max_surge=_parse_share(fields, "maxSurge", MAX_SURGE),
        max_unavailable=_parse_share(fields, "maxUnavailable", MAX_UNAVAILABLE),
        progress_deadline_seconds=_parse_deadline(fields),
        on_failure=fields.choice("onFailure", OnFailure.ROLLBACK),
        blue_green=_parse_blue_green(fields.child("blueGreen")),
        canary=parse_canary(fields.child("canary")),
    )
    rolls = rollout.strategy is Strategy.ROLLING_UPDATE
    if rolls and _is_none(rollout.max_surge) and _is_none(rollout.max_unavailable):
        expected = "maxSurge or maxUnavailable to be at least 1, or no pod could be replaced"
        fields.reject("", {"maxSurge": 0, "maxUnavailable": 0}, expected)
    if rollout.strategy is Strategy.CANARY and fields.raw("canary") is None:
        fields.reject("canary", None, "parentRefs with strategy Canary, such as [{name: web}]")
    fields.unknown()
    return rollout


def _parse_blue_green(fields: Fields) -> BlueGreen:
    blue_green = BlueGreen(keep_seconds=fields.integer("keepSeconds", 60, 10, 86400))
    fields.unknown()
    return blue_green


def _parse_deadline(fields: Fields) -> int | None:
    if fields.raw("progressDeadlineSeconds") is None:
        return None
    return fields.integer("progressDeadlineSeconds", 1, 1, 86400)


def _parse_share(fields: Fields, name: str, default: int | str) -> int | str:
    value = fields.raw(name)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
        return value
    if isinstance(value, str) and PERCENTAGE.fullmatch(value):
        return value
    fields.reject(name, value, SHARE_EXPECTED)
    return default


def _is_none(share: int | str) -> bool:
    return share in {0, "0%"}
