"""The recorded revisions in a status."""

from typing import Any

import pytest

from moorage_operator.values.revisions import (
    CanaryProgress,
    Rejection,
    Retirement,
    Revisions,
    read_revisions,
    write_revisions,
)

REJECTED = Rejection("b", "CrashLoopBackOff", "it crashes", "2026-03-04T05:06:07Z")


def test_a_status_without_revisions_is_empty() -> None:
    assert read_revisions({}) == Revisions()


def test_missing_fields_of_an_entry_have_defaults() -> None:
    status: dict[str, Any] = {
        "revisions": {
            "canary": {"since": "2026-03-04T05:06:07Z"},
            "rejected": {"revision": "b"},
            "retiring": {"revision": "c"},
        }
    }

    assert read_revisions(status) == Revisions(
        canary=CanaryProgress("", 0, 0, "2026-03-04T05:06:07Z"),
        rejected=Rejection("b", "", "", ""),
        retiring=Retirement("c", ""),
    )


def test_a_canary_with_only_a_revision_has_not_begun() -> None:
    status = {"revisions": {"canary": {"revision": "b"}}}

    assert read_revisions(status).canary == CanaryProgress("b", 0, 0, "")


def test_an_unset_time_is_left_out() -> None:
    written = write_revisions(
        Revisions(retiring=Retirement("c"), canary=CanaryProgress("b", 1, 20))
    )

    assert written["retiring"] == {"revision": "c"}
    assert written["canary"] == {"revision": "b", "step": 1, "weight": 20}


def test_empty_entries_are_left_out() -> None:
    assert write_revisions(Revisions()) == {}
    assert write_revisions(Revisions("b", "", "b")) == {"current": "b", "lastGood": "b"}


def test_written_revisions_are_read_back() -> None:
    canary = CanaryProgress("b", 2, 50, "2026-03-04T05:06:07Z")
    known = Revisions("b", "hash", "a", REJECTED, Retirement("c"), canary)

    assert read_revisions({"revisions": write_revisions(known)}) == known


@pytest.mark.parametrize(
    ("known", "candidate"),
    [
        (Revisions(current="b", last_good="a"), "b"),
        (Revisions(current="a", last_good="a"), None),
        (Revisions(current="b", last_good="a", rejected=REJECTED), None),
    ],
)
def test_the_candidate_is_the_current_revision_while_it_is_tried(
    known: Revisions, candidate: str | None
) -> None:
    assert write_revisions(known).get("candidate") == candidate


KNOWN = Revisions("b", "v1:aaaaaaaaaa", "a", REJECTED)


@pytest.mark.parametrize("described", [True, False])
def test_the_same_hash_keeps_the_revision(described: bool) -> None:
    assert KNOWN.of("v1:aaaaaaaaaa", is_described=described) == KNOWN


@pytest.mark.parametrize("described", [True, False])
def test_another_hash_of_the_same_format_is_a_new_attempt(described: bool) -> None:
    after = KNOWN.of("v1:bbbbbbbbbb", is_described=described)

    assert after == Revisions("", "v1:bbbbbbbbbb", "a")


@pytest.mark.parametrize("known", ["v2:aaaaaaaaaa", "aaaaaaaaaa"])
def test_a_hash_of_another_format_is_a_new_attempt_only_for_another_generation(known: str) -> None:
    revisions = Revisions("b", known, "a", REJECTED)

    same = revisions.of("v1:bbbbbbbbbb", is_described=True)
    edited = revisions.of("v1:bbbbbbbbbb", is_described=False)

    assert same == Revisions("b", "v1:bbbbbbbbbb", "a", REJECTED)
    assert edited == Revisions("", "v1:bbbbbbbbbb", "a")


def test_the_first_hash_is_an_attempt() -> None:
    assert Revisions().of("v1:b", is_described=True) == Revisions(spec_hash="v1:b")
