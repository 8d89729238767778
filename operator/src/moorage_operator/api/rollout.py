"""`spec.rollout`: how a new revision replaces the earlier one.

`decide.rollout` carries it out.
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
SHARE_EXPECTED = "a whole number of pods, or a percentage such as '25%'"


# The name of a revision, which the status reports.
REVISION = re.compile(r"[0-9a-z]{1,63}")
REVISION_EXPECTED = "the name of a revision in status.revisions, such as 4c1f0a9d2e"
# A revision with all of its remaining steps, or with one step.
PROMOTED = re.compile(r"[0-9a-z]{1,63}(/[1-9][0-9]?)?")
PROMOTED_EXPECTED = f"{REVISION_EXPECTED}, optionally with a step, such as 4c1f0a9d2e/2"
# RFC 3339, "date-time".
TIME = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)
TIME_EXPECTED = "a time in RFC 3339, such as 2026-03-04T05:06:07Z"


class Strategy(StrEnum):
    """How the pods of a new revision replace those of the earlier one."""

    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"
    BLUE_GREEN = "BlueGreen"
    CANARY = "Canary"

    @property
    def is_per_revision(self) -> bool:
        """Whether each revision has its own Deployment."""
        return self in {Strategy.BLUE_GREEN, Strategy.CANARY}


class OnFailure(StrEnum):
    """What happens to a revision that fails to serve."""

    ROLLBACK = "Rollback"
    PAUSE = "Pause"


@dataclass(frozen=True, slots=True)
class BlueGreen:
    """`spec.rollout.blueGreen`: how long the earlier revision is kept after the switch."""

    keep_seconds: int = 60


@dataclass(frozen=True, slots=True)
class Rollout:
    """`spec.rollout`. A deadline of None is derived from `health.startupTimeoutSeconds`.

    `max_surge` and `max_unavailable` are pods or a percentage, as in a Deployment. The verbs
    `promote`, `abort` and `restarted_at` are empty if absent.
    """

    strategy: Strategy = Strategy.ROLLING_UPDATE
    max_surge: int | str = MAX_SURGE
    max_unavailable: int | str = MAX_UNAVAILABLE
    progress_deadline_seconds: int | None = None
    on_failure: OnFailure = OnFailure.ROLLBACK
    blue_green: BlueGreen = BlueGreen()
    canary: Canary = field(default_factory=Canary)
    promote: str = ""
    abort: str = ""
    restarted_at: str = ""


def parse_rollout(fields: Fields) -> Rollout:
    """Read the rollout and fill in its defaults; record invalid values as problems."""
    rollout = Rollout(
        strategy=fields.choice("strategy", Strategy.ROLLING_UPDATE),
        max_surge=_parse_share(fields, "maxSurge", MAX_SURGE),
        max_unavailable=_parse_share(fields, "maxUnavailable", MAX_UNAVAILABLE),
        progress_deadline_seconds=fields.optional_integer("progressDeadlineSeconds", 1, 86400),
        on_failure=fields.choice("onFailure", OnFailure.ROLLBACK),
        blue_green=_parse_blue_green(fields.child("blueGreen")),
        canary=parse_canary(fields.child("canary")),
        promote=_parse_text(fields, "promote", PROMOTED, PROMOTED_EXPECTED),
        abort=_parse_text(fields, "abort", REVISION, REVISION_EXPECTED),
        restarted_at=_parse_text(fields, "restartedAt", TIME, TIME_EXPECTED),
    )
    rolls = rollout.strategy is Strategy.ROLLING_UPDATE
    if rolls and _is_none(rollout.max_surge) and _is_none(rollout.max_unavailable):
        sentence = (
            "with maxSurge 0 and maxUnavailable 0 the rollout cannot replace a pod; set maxSurge "
            "to 1, or set maxUnavailable to 1 if there is no room for an extra pod"
        )
        fields.report("", sentence)
    fields.unknown()
    return rollout


def _parse_text(fields: Fields, name: str, pattern: re.Pattern[str], expected: str) -> str:
    text = fields.text(name)
    if not text or pattern.fullmatch(text):
        return text
    fields.reject(name, text, expected)
    return ""


def _parse_blue_green(fields: Fields) -> BlueGreen:
    blue_green = BlueGreen(keep_seconds=fields.integer("keepSeconds", 60, 10, 86400))
    fields.unknown()
    return blue_green


def _parse_share(fields: Fields, name: str, default: int | str) -> int | str:
    value = fields.raw(name, default)
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
