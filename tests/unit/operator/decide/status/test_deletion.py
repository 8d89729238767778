"""The status of a model that is being deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

from moorage_operator.decide.plan import status_of_deleted

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "replicas": 2,
    "selector": "moorage.dev/model=iris",
    "replicaSummary": "2/2",
    "endpoints": [{"url": "http://iris"}],
    "revisions": {"current": "abc"},
    "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"},
        {"type": "UpToDate", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"},
    ],
}


def test_only_what_cannot_become_untrue_stays_and_later_passes_change_nothing() -> None:
    status = status_of_deleted(STATUS, generation=2, now=NOW)

    (ready,) = status.pop("conditions")
    assert status == {
        "observedGeneration": 2,
        "replicas": 2,
        "selector": "moorage.dev/model=iris",
        "revisions": {"current": "abc"},
    }
    assert (ready["status"], ready["reason"]) == ("False", "Deleting")
    assert ready["observedGeneration"] == 2
    assert ready["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    whole = {**status, "conditions": [ready]}
    assert status_of_deleted(whole, generation=2, now=NOW + timedelta(hours=1)) == whole


def test_a_model_without_a_status_gets_none() -> None:
    assert status_of_deleted({}, generation=1, now=NOW) == {}
