import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from moorage_operator.kube import lease
from moorage_operator.kube.lease import DURATION_SECONDS, RENEW_SECONDS, WRITE_SECONDS, Seen

NOW = datetime(2026, 11, 21, 8, 0, 0, 5, tzinfo=UTC)


def read(version: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "spec": spec}


def test_the_leader_stops_writing_before_another_may_take_over():
    assert RENEW_SECONDS * 2 < WRITE_SECONDS < DURATION_SECONDS


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's time zone is far from UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("spec", "at", "free"),
    [
        ({}, 0.0, True),
        ({"holderIdentity": ""}, 0.0, True),
        ({"holderIdentity": "me"}, 0.0, True),
        ({"holderIdentity": "other", "leaseDurationSeconds": 15}, 14.0, False),
        ({"holderIdentity": "other", "leaseDurationSeconds": 15}, 15.0, False),
        ({"holderIdentity": "other", "leaseDurationSeconds": 15}, 15.1, True),
        ({"holderIdentity": "other"}, 14.9, False),
        ({"holderIdentity": "other"}, 15.1, True),
        ({"holderIdentity": "other", "leaseDurationSeconds": 40}, 39.9, False),
        ({"holderIdentity": "other", "leaseDurationSeconds": 40}, 40.1, True),
    ],
)
@pytest.mark.parametrize("changed_at", [0.0, 1000.0])
def test_a_lease_is_free_when_nobody_renews_it(spec, at, free, changed_at):
    assert Seen("1", spec, changed_at).is_free("me", changed_at + at) is free


def test_a_lease_is_recorded_as_it_was_read():
    seen = lease.see(read("7", holderIdentity="other", leaseTransitions=2), None, 10.0)

    assert seen == Seen("7", {"holderIdentity": "other", "leaseTransitions": 2}, 10.0)
    assert seen.holder == "other"


def test_a_lease_without_a_spec_has_no_holder():
    seen = lease.see({"metadata": {"resourceVersion": "1"}}, None, 0.0)

    assert seen.holder == ""
    assert seen.is_free("me", 0.0)


def test_the_age_of_a_lease_counts_from_its_last_change():
    first = lease.see(read("1", holderIdentity="other"), None, 10.0)

    same = lease.see(read("1", holderIdentity="other"), first, 20.0)
    renewed = lease.see(read("2", holderIdentity="other"), first, 20.0)

    assert same.changed_at == 10.0
    assert renewed.changed_at == 20.0


def test_a_new_lease_has_every_field_of_the_protocol():
    at = "2026-11-21T08:00:00.000005Z"

    assert lease.taken(None, "a", NOW) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": at,
        "renewTime": at,
        "leaseTransitions": 0,
    }


def test_a_renewed_lease_keeps_when_and_how_often_it_was_acquired():
    before = {"holderIdentity": "a", "acquireTime": "earlier", "leaseTransitions": 4}

    assert lease.taken(Seen("1", before, 0.0), "a", NOW) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "earlier",
        "renewTime": "2026-11-21T08:00:00.000005Z",
        "leaseTransitions": 4,
    }


def test_a_lease_of_another_holder_continues_its_count():
    before = {"holderIdentity": "a", "acquireTime": "earlier", "leaseTransitions": 4}

    spec = lease.taken(Seen("1", before, 0.0), "b", NOW)

    assert (spec["leaseTransitions"], spec["acquireTime"]) == (5, "2026-11-21T08:00:00.000005Z")


@pytest.mark.usefixtures("tokyo")
def test_times_are_in_utc():
    there = NOW.astimezone(timezone(timedelta(hours=-5)))

    assert lease.taken(None, "a", there)["renewTime"] == "2026-11-21T08:00:00.000005Z"


def test_acquiring_counts_as_a_transition_and_renewing_does_not():
    made = lease.taken(None, "a", NOW)
    renewed = lease.taken(Seen("1", made, 0.0), "a", NOW)
    taken = lease.taken(Seen("2", renewed, 0.0), "b", NOW)

    assert made["leaseTransitions"] == 0
    assert renewed["leaseTransitions"] == 0
    assert renewed["acquireTime"] == made["acquireTime"] == "2026-11-21T08:00:00.000005Z"
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("b", 1)


def test_a_released_lease_is_free_at_once_and_keeps_its_count():
    spec = lease.released(Seen("1", {"holderIdentity": "a", "leaseTransitions": 3}, 0.0), NOW)

    assert Seen("2", spec, changed_at=0.0).is_free("b", 0.0)
    assert spec == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "renewTime": "2026-11-21T08:00:00.000005Z",
        "leaseTransitions": 3,
    }


def test_a_lease_that_nobody_else_held_is_released_with_no_transitions():
    spec = lease.released(Seen("1", {"holderIdentity": "a"}, 0.0), NOW)

    assert spec["leaseTransitions"] == 0
