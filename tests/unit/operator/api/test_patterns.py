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
        ("(", "missing ): ("),
        ("größe(", "missing ): größe("),
        ("[a", "missing ]: [a"),
        ("*", "no argument for repetition operator: *"),
        ("(?=a)", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("a{2000}", "invalid repetition size: {2000}"),
        ("(?:(?:.?){30}){30}x", "pattern too large - compile failed"),
    ],
)
def test_an_invalid_pattern_has_a_reason(pattern, reason):
    assert problem_of(pattern) == reason


def test_groups_need_no_memory_because_nothing_is_captured():
    groups = 10

    assert problem_of(f"(?:{'(' * groups}a{')' * groups}){{900}}") == ""


def test_the_library_writes_no_message_of_its_own(capfd):
    assert problem_of("(") != ""

    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")


@pytest.mark.parametrize("pattern", BACKTRACKING)
def test_a_pattern_that_would_backtrack_takes_no_time(pattern):
    text = "a" * (TEXT_LIMIT_CHARACTERS - 1) + "!"
    started = time.process_time()

    is_found(pattern, text)

    # Python's own expressions would take longer than the age of the universe.
    assert time.process_time() - started < 5
