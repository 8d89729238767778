"""Statistics: their definitions as properties, and one worked number each."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moorage_benchmarks import figures

VALUES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([1, 2, 3, 4, 5], 90, 4.6),
        ([5, 4, 3, 2, 1], 50, 3),
        ([1, 2], 50, 1.5),
        ([7], 90, 7),
        ([1, 3], 0, 1),
        ([1, 3], 100, 3),
    ],
)
def test_percentile_lies_on_the_line_between_neighbours(values, percent, expected):
    assert figures.percentile(values, percent) == pytest.approx(expected)


@given(VALUES)
def test_median_is_the_fiftieth_percentile(values):
    assert figures.percentile(values, 50) == pytest.approx(figures.median(values))


@given(VALUES, st.floats(0, 100), st.floats(0, 100))
def test_percentiles_rise_within_the_range(values, one, other):
    low, high = sorted((one, other))

    found = [figures.percentile(values, percent) for percent in (0, low, high, 100)]

    assert found[0] == min(values)
    assert found[3] == max(values)
    assert all(a <= b or a == pytest.approx(b) for a, b in itertools.pairwise(found))


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1], -1), ([1], 101)])
def test_percentile_refuses_what_has_none(values, percent):
    with pytest.raises(ValueError, match="percentile"):
        figures.percentile(values, percent)


def test_median_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no values"):
        figures.median([])


def test_spread_is_half_the_range_in_percent_of_the_median():
    assert figures.spread_percent([90, 100, 120]) == pytest.approx(15)
