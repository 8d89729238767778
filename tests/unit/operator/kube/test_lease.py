from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator.kube import lease
from moorage_operator.kube.lease import DURATION_SECONDS, RENEW_SECONDS, WRITE_SECONDS, Seen

NOW = datetime(2026, 11, 21, 8, 0, 0, 5, tzinfo=UTC)


def read(version: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "spec": spec}


def test_the_leader_stops_writing_before_another_may_take_over():
    assert RENEW_SECONDS * 2 < WRITE_SECONDS < DURATION_SECONDS


@pytest.mark.parametrize(
    ("spec", "at", "free"),
    [
        ({}, 0.0, True),
        ({"holderIdentity": ""}, 0.0, True),
        ({"holderIdentity": "me"}, 0.0, True),
        ({"holderIdentity": "other", "leaseDurationSeconds": 15}, 14.0, False),
        ({"holderIdentity": "other", "leaseDurationSeconds": 15}, 15.0, False),
        ({"holderIdentity": "other", "leaseDurationSeconds": 15}, 15.1, True),
        ({"holderIdentity": "other"}, 15.1, True),
    ],
)
def test_a_lease_is_free_when_nobody_renews_it(spec, at, free):
    assert Seen("1", spec, changed_at=0.0).is_free("me", at) is free


def test_the_age_of_a_lease_counts_from_its_last_change():
    first = lease.see(read("1", holderIdentity="other"), None, 10.0)

    same = lease.see(read("1", holderIdentity="other"), first, 20.0)
    renewed = lease.see(read("2", holderIdentity="other"), first, 20.0)

    assert same.changed_at == 10.0
    assert renewed.changed_at == 20.0


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
    assert spec["leaseTransitions"] == 3
