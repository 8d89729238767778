"""spec.rollout: defaults, and a sentence for each invalid value."""

from typing import Any

import pytest

from moorage_operator.api.canary import CanaryStep
from moorage_operator.api.fields import Fields, Problem
from moorage_operator.api.rollout import BlueGreen, OnFailure, Rollout, Strategy, parse_rollout
from support.spec_sentences import UNKNOWN

STEPS = "one or more weights that increase, such as 10 and then 50"
SHARE = "a whole number of pods, or a percentage such as '25%'"
REVISION = "the name of a revision in status.revisions, such as 4c1f0a9d2e"


def read(rollout: Any) -> tuple[Rollout, list[str], Any]:
    """A rollout, its problems, and what is written of it."""
    found: list[Problem] = []
    fields = Fields(rollout, "spec.rollout", found)
    parsed = parse_rollout(fields)
    return parsed, [str(problem) for problem in found], fields.written()


def test_a_rollout_has_its_defaults() -> None:
    parsed, problems, written = read({})

    assert (problems, written) == ([], {})
    assert parsed == Rollout()
    assert (parsed.max_surge, parsed.max_unavailable) == ("25%", 0)
    assert parsed.blue_green.keep_seconds == parsed.canary.keep_seconds == 60
    assert parsed.canary.steps == (CanaryStep(10, 300), CanaryStep(50, 300))


def test_every_field_is_read() -> None:
    rollout = {
        "strategy": "BlueGreen",
        "maxSurge": 2,
        "maxUnavailable": "100%",
        "progressDeadlineSeconds": 86400,
        "onFailure": "Pause",
        "blueGreen": {"keepSeconds": 10},
        "canary": {
            "steps": [{"weight": 1}, {"weight": 99, "pauseSeconds": 0}],
            "keepSeconds": 86400,
        },
        "promote": "4c1f0a9d2e/99",
        "abort": "4c1f0a9d2e",
        "restartedAt": "2026-03-04T05:06:07.123456789+01:00",
    }
    parsed, problems, written = read(rollout)

    assert problems == []
    assert written == rollout
    assert (parsed.strategy, parsed.on_failure) == (Strategy.BLUE_GREEN, OnFailure.PAUSE)
    assert (parsed.max_surge, parsed.max_unavailable) == (2, "100%")
    assert parsed.progress_deadline_seconds == 86400
    assert parsed.blue_green == BlueGreen(10)
    assert parsed.canary.steps == (CanaryStep(1, None), CanaryStep(99, 0))
    assert parsed.canary.keep_seconds == 86400
    assert (parsed.promote, parsed.abort) == ("4c1f0a9d2e/99", "4c1f0a9d2e")
    assert parsed.restarted_at == "2026-03-04T05:06:07.123456789+01:00"


@pytest.mark.parametrize(
    ("strategy", "per_revision"),
    [("RollingUpdate", False), ("Recreate", False), ("BlueGreen", True), ("Canary", True)],
)
def test_some_strategies_have_a_deployment_per_revision(strategy: str, per_revision: bool) -> None:
    assert read({"strategy": strategy})[0].strategy.is_per_revision == per_revision


def test_defaults_that_are_spelled_out_are_not_written() -> None:
    steps = [{"weight": 10, "pauseSeconds": 300}, {"weight": 50, "pauseSeconds": 300}]
    rollout = {
        "strategy": "RollingUpdate",
        "maxSurge": "25%",
        "maxUnavailable": 0,
        "onFailure": "Rollback",
        "blueGreen": {"keepSeconds": 60},
        "canary": {"steps": steps, "keepSeconds": 60},
    }
    parsed, problems, written = read(rollout)

    assert (problems, written) == ([], {})
    assert parsed == Rollout()


@pytest.mark.parametrize("share", [0, 1, 2**31 - 1, "0%", "9%", "10%", "100%"])
def test_a_share_is_a_number_or_a_percentage(share: Any) -> None:
    parsed, problems, _ = read({"maxSurge": share, "maxUnavailable": 1})

    assert problems == []
    assert parsed.max_surge == share


@pytest.mark.parametrize("share", [-1, 2**31, True, 0.5, "101%", "01%", "1", "25 %", [1]])
@pytest.mark.parametrize(("name", "default"), [("maxSurge", "25%"), ("maxUnavailable", 0)])
def test_an_invalid_share_is_reported(name: str, default: Any, share: Any) -> None:
    parsed, problems, _ = read({name: share})

    assert problems == [f"spec.rollout.{name}: {share!r} is invalid: must be {SHARE}"]
    assert (parsed.max_surge, parsed.max_unavailable) == ("25%", 0)


@pytest.mark.parametrize("surge", [0, "0%"])
@pytest.mark.parametrize("unavailable", [0, "0%", None])
def test_a_rolling_update_needs_room(surge: Any, unavailable: Any) -> None:
    shares = {"maxSurge": surge, "maxUnavailable": unavailable}

    assert read(shares)[1] == [
        (
            "spec.rollout: with maxSurge 0 and maxUnavailable 0 the rollout cannot replace a pod; "
            "set maxSurge to 1, or set maxUnavailable to 1 if there is no room for an extra pod"
        )
    ]
    assert read({**shares, "strategy": "Recreate"})[1] == []
    assert read({**shares, "maxUnavailable": 1})[1] == []


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        (
            {"strategy": "Blue"},
            (
                "strategy: 'Blue' is invalid: must be one of RollingUpdate, Recreate, BlueGreen, "
                "Canary"
            ),
        ),
        ({"onFailure": "Stop"}, "onFailure: 'Stop' is invalid: must be one of Rollback, Pause"),
        (
            {"progressDeadlineSeconds": 0},
            "progressDeadlineSeconds: 0 is invalid: must be a whole number from 1 to 86400",
        ),
        (
            {"progressDeadlineSeconds": 86401},
            "progressDeadlineSeconds: 86401 is invalid: must be a whole number from 1 to 86400",
        ),
        ({"abort": "a/1"}, f"abort: 'a/1' is invalid: must be {REVISION}"),
        (
            {"promote": "A"},
            (
                f"promote: 'A' is invalid: must be {REVISION}, optionally with a step, such as "
                "4c1f0a9d2e/2"
            ),
        ),
        (
            {"restartedAt": "2026-13-04T05:06:07Z"},
            (
                "restartedAt: '2026-13-04T05:06:07Z' is invalid: must be a time in RFC 3339, such "
                "as 2026-03-04T05:06:07Z"
            ),
        ),
        ({"blueGreen": {"steps": []}}, f"blueGreen.steps: {UNKNOWN}"),
        ({"canary": {"weight": 5}}, f"canary.weight: {UNKNOWN}"),
        ({"weight": 5}, f"weight: {UNKNOWN}"),
        ({"canary": {"steps": []}}, f"canary.steps: [] is invalid: must be {STEPS}"),
        (
            {"canary": {"steps": [{"weight": 50}, {"weight": 10}]}},
            f"canary.steps: [50, 10] is invalid: must be {STEPS}",
        ),
        (
            {"canary": {"steps": [{"weight": 10}, {"weight": 10}]}},
            f"canary.steps: [10, 10] is invalid: must be {STEPS}",
        ),
    ],
)
def test_an_invalid_field_is_reported_and_has_its_default(rollout: Any, expected: str) -> None:
    parsed, problems, _ = read(rollout)

    assert problems == [f"spec.rollout.{expected}"]
    assert parsed == Rollout()


@pytest.mark.parametrize("section", ["blueGreen", "canary"])
@pytest.mark.parametrize("seconds", [9, 86401])
def test_a_replaced_pod_is_kept_for_seconds_to_a_day(section: str, seconds: int) -> None:
    assert read({section: {"keepSeconds": seconds}})[1] == [
        (
            f"spec.rollout.{section}.keepSeconds: {seconds} is invalid: must be a whole number "
            "from 10 to 86400"
        )
    ]


def test_steps_that_are_invalid_themselves_are_not_compared() -> None:
    steps = [{"weight": 0}, {"pauseSeconds": 604_801}, {"weight": 100, "pause": 1}]

    parsed, problems, _ = read({"canary": {"steps": steps}})

    assert problems == [
        "spec.rollout.canary.steps[0].weight: 0 is invalid: must be a whole number from 1 to 99",
        "spec.rollout.canary.steps[1].weight: is required and must be a whole number from 1 to 99",
        (
            "spec.rollout.canary.steps[1].pauseSeconds: 604801 is invalid: must be a whole number "
            "from 0 to 604800"
        ),
        "spec.rollout.canary.steps[2].weight: 100 is invalid: must be a whole number from 1 to 99",
        f"spec.rollout.canary.steps[2].pause: {UNKNOWN}",
    ]
    assert parsed.canary.steps == (CanaryStep(10, 300), CanaryStep(50, 300))


def test_a_canary_has_at_most_20_steps() -> None:
    steps = [{"weight": at + 1, "pauseSeconds": 604_800} for at in range(21)]

    assert len(read({"canary": {"steps": steps[:20]}})[0].canary.steps) == 20
    assert read({"canary": {"steps": steps}})[1] == [
        "spec.rollout.canary.steps: has 21 steps: must have at most 20"
    ]
