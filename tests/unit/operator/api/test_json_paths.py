"""The subset of JSONPath: what it accepts, and what a path selects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.json_paths import parse_json_path, written_path

PATHS = [
    ("$", ()),
    ("a", ("a",)),
    ("$.a", ("a",)),
    ("choices[0].message.content", ("choices", 0, "message", "content")),
    ("$.data[12].embedding[3]", ("data", 12, "embedding", 3)),
    ("[0]", (0,)),
    ("$[0][1]", (0, 1)),
    ("0", ("0",)),
    ("a-b_c.9", ("a-b_c", "9")),
    ("a" * 256, ("a" * 256,)),
]


@pytest.mark.parametrize(("text", "steps"), PATHS)
def test_a_path_consists_of_names_and_indexes(text, steps):
    assert parse_json_path(text) == steps


@pytest.mark.parametrize(
    "text",
    ["", ".", "$.", "$a", ".a", "a.", "a..b", "a.[0]", "a[", "a[]", "a[-1]", "a[01]", "a[1:2]",
     "a[*]", "a['b']", 'a["b"]', "a[0]b", "..a", "a[?(@.b)]", "a b", "a\n", "é",
     "a[1000000]", "a" * 257],
)  # fmt: skip
def test_another_text_is_no_path(text):
    assert parse_json_path(text) is None


steps = st.lists(
    st.integers(0, 999_999) | st.text("abcXYZ019_-", min_size=1, max_size=6), max_size=12
).map(tuple)


@given(steps)
def test_a_written_path_is_read_back(path):
    assert parse_json_path(written_path(path)) == path


@given(st.text("$.[]ab01 -", max_size=12))
def test_any_text_is_a_path_that_can_be_written_or_none(text):
    path = parse_json_path(text)

    if path is not None:
        assert written_path(path) == (text.removeprefix("$").removeprefix(".") or "$")
