"""Host names: which of them overlap, and where."""

import pytest

from moorage_operator.api.hostnames import intersection


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        ("a.b", "a.b", "a.b"),
        ("a.b", "c.b", ""),
        ("a.b", "*.b", "a.b"),
        ("x.a.b", "*.b", "x.a.b"),
        ("b", "*.b", ""),
        ("ab", "*.b", ""),
        ("*.a.b", "*.b", "*.a.b"),
        ("*.b", "*.b", "*.b"),
        ("*.a.b", "*.c.b", ""),
    ],
)
def test_the_intersection_is_the_more_specific_name(one: str, other: str, common: str) -> None:
    assert intersection(one, other) == common
    assert intersection(other, one) == common
