"""Patterns take linear time, and invalid ones are rejected with RE2's reason."""

import time

import pytest

from moorage_operator.api.patterns import TEXT_LIMIT_CHARACTERS, is_found, problem_of

BACKTRACKING = ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*.*.*.*)*x", "(?:a?){30}a{30}$"]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("blue", "the sky is blue.", True),
        ("^blue", "the sky is blue.", False),
        ("(?i)BLUE", "the sky is blue.", True),
        (r"\b4[0-9]\b", "it is 42", True),
        (r"^\pL+$", "größe", True),
        ("", "anything", True),
        ("a.b", "a\nb", False),
    ],
)
def test_a_pattern_is_searched_anywhere(pattern, text, expected):
    assert problem_of(pattern) == ""
    assert is_found(pattern, text) is expected


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing"),
        ("[a", "missing"),
        ("*", "repetition"),
        ("(?=a)", "invalid perl operator"),
        (r"(a)\1", "invalid escape"),
        ("a{2000}", "repetition"),
        ("(?:(?:.?){30}){30}x", "too large"),
    ],
)
def test_an_invalid_pattern_has_a_reason(pattern, reason):
    assert reason in problem_of(pattern)


@pytest.mark.parametrize("pattern", BACKTRACKING)
def test_a_pattern_that_would_backtrack_takes_no_time(pattern):
    text = "a" * (TEXT_LIMIT_CHARACTERS - 1) + "!"
    started = time.process_time()

    is_found(pattern, text)

    # Python's own expressions would take longer than the age of the universe.
    assert time.process_time() - started < 5
