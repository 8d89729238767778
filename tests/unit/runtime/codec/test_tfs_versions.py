"""Version names to int64 numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec.tfs.versions import natural_key, version_numbers


@pytest.mark.parametrize(
    ("versions", "configured", "numbers"),
    [
        (["1", "314"], {}, {"1": 1, "314": 314}),
        (["v10", "v9"], {}, {"v9": 9, "v10": 10}),
        (["3", "alpha", "v10"], {}, {"3": 3, "alpha": 2, "v10": 10}),
        (["alpha", "beta"], {}, {"alpha": 1, "beta": 2}),
        (["alpha", "beta"], {"alpha": 7}, {"alpha": 7, "beta": 2}),
        (["v10"], {"v10": 3}, {"v10": 10}),
        (["10", "v10"], {}, {"10": 10, "v10": 2}),
        (["7", "007"], {}, {"7": 7, "007": 2}),
        (["1.0.0", "2"], {}, {"1.0.0": 1, "2": 2}),
        (["2", "alpha", "beta"], {}, {"2": 2, "alpha": 3, "beta": 4}),
        (["0"], {}, {"0": 0}),
        ([str(2**63 - 1)], {}, {str(2**63 - 1): 2**63 - 1}),
        ([str(2**63)], {}, {str(2**63): 1}),
        (["3", "alpha"], {"alpha": 7}, {"3": 3, "alpha": 7}),
        (["alpha"], {"alpha": -1}, {"alpha": 1}),
        ([], {}, {}),
    ],
)
def test_versions_are_numbered(versions, configured, numbers):
    assert version_numbers(versions, configured) == numbers
    assert version_numbers(reversed(versions), configured) == numbers


def test_versions_are_in_natural_order():
    assert list(version_numbers(["v10", "v9", "007", "7"])) == ["7", "007", "v9", "v10"]


def test_digits_sort_by_value():
    versions = ["v10", "v9", "2", "20", "12", "v9.10", "v9.9", "v1-b", "v1-ab", "v007"]
    assert sorted(versions, key=natural_key) == [
        "2", "12", "20", "v1-ab", "v1-b", "v007", "v9", "v9.9", "v9.10", "v10",
    ]  # fmt: skip # one line shows the order


@given(
    st.sets(st.text() | st.integers(0).map(str) | st.integers(0).map("v{}".format), max_size=20),
    st.dictionaries(st.text(), st.integers()),
)
def test_every_version_has_a_unique_number(versions, configured):
    numbers = version_numbers(versions, configured)

    assert numbers.keys() == versions
    assert len(set(numbers.values())) == len(versions)
    assert all(0 <= number < 2**63 for number in numbers.values())
