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


def test_a_negative_step_is_read_as_the_one_before_the_first() -> None:
    found = read_revisions({"revisions": {"canary": {"revision": "r2", "step": -5, "weight": 20}}})

    assert found.canary == CanaryProgress("r2", 0, 20)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-03-04T05:06:07Z", "2026-03-04T05:06:07Z"),
        ("2026-03-04T05:06:07.5+02:00", "2026-03-04T05:06:07.5+02:00"),
        ("9000-12-31T23:59:59Z", "9000-12-31T23:59:59Z"),
        ("9001-01-01T00:00:00Z", ""),
        ("0000-01-01T00:00:00Z", ""),
        ("2026-03-04T05:06:07+99:99", ""),
        ("2026-03-04T05:06:07", ""),
        ("yesterday", ""),
    ],
)
def test_a_time_from_which_nothing_can_be_counted_is_none(time: str, expected: str) -> None:
    entries = {"canary": {"revision": "b", "since": time}, "retiring": {"time": time}}

    found = read_revisions({"revisions": entries})

    assert found.canary == CanaryProgress("b", since=expected)
    assert found.retiring == Retirement("", expected)


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
    known = Revisions("b", "hash", "a", REJECTED, Retirement("c"), canary, ("d", "e"))

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

    assert after == Revisions("", "v1:bbbbbbbbbb", "a", unproven=("b",))


@pytest.mark.parametrize(
    ("current", "last_good", "before", "after"),
    [
        ("b", "a", (), ("b",)),
        ("b", "", (), ("b",)),
        ("b", "a", ("c", "d"), ("b", "c", "d")),
        ("b", "a", ("c", "b", "d"), ("b", "c", "d")),
        ("b", "b", ("c", "b"), ("c", "b")),
        ("", "a", ("c",), ("c",)),
        ("b", "a", tuple("cdefghijkl"), tuple("bcdefghijk")),
    ],
    ids=["failed", "the first", "another one", "again", "served", "not rendered", "too many"],
)
def test_a_revision_that_is_left_before_it_served_is_remembered(
    current: str, last_good: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    known = Revisions(current, "v1:aaaaaaaaaa", last_good, unproven=before)

    assert known.of("v1:bbbbbbbbbb", is_described=True).unproven == after
    assert known.of("v1:aaaaaaaaaa", is_described=True).unproven == before


def test_a_revision_that_serves_is_the_last_good_one_and_proven() -> None:
    known = Revisions("b", "hash", "a", unproven=("c", "b", "d"))

    assert known.proven("b") == Revisions("b", "hash", "b", unproven=("c", "d"))


def test_revisions_without_unproven_ones_are_written_as_before() -> None:
    assert "unproven" not in write_revisions(Revisions("b", "hash", "a"))
    assert write_revisions(Revisions(unproven=("b",))) == {"unproven": ["b"]}


@pytest.mark.parametrize("known", ["v2:aaaaaaaaaa", "aaaaaaaaaa"])
def test_a_hash_of_another_format_is_a_new_attempt_only_for_another_generation(known: str) -> None:
    revisions = Revisions("b", known, "a", REJECTED)

    same = revisions.of("v1:bbbbbbbbbb", is_described=True)
    edited = revisions.of("v1:bbbbbbbbbb", is_described=False)

    assert same == Revisions("b", "v1:bbbbbbbbbb", "a", REJECTED)
    assert edited == Revisions("", "v1:bbbbbbbbbb", "a", unproven=("b",))


def test_the_first_hash_is_an_attempt() -> None:
    assert Revisions().of("v1:b", is_described=True) == Revisions(spec_hash="v1:b")
