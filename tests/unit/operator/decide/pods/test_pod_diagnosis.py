"""The log lines of a terminated container in the status."""

import pytest

from moorage_operator.decide.pods.pod_diagnosis import LOG_TAIL_CHARACTERS, log_tail


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        ("", ""),
        ("  no weights\n", "no weights"),
        ("Traceback:\r\n\tat line 1\n", "Traceback:\n    at line 1"),
        ("\x1b[2Jno\x00\x07", "\\x1b[2Jno\\x00\\x07"),
        ("\x1b[0;93mwarning\x1b[m: \x1b[31mno\x1b[31", "warning: no\\x1b[31"),
        ("a\u202eb\u2066c\u2028d", "a\\u202eb\\u2066c\\u2028d"),
        ("\ud800", "\\ud800"),
        ("modèle 模型", "modèle 模型"),
    ],
)
def test_colors_are_removed_other_unprintable_characters_escaped_and_lines_kept(
    logged: str, expected: str
) -> None:
    assert log_tail(logged) == expected


@pytest.mark.parametrize("unit", ["x", "\x1b", "\u202e", "\n"])
def test_a_log_tail_is_limited(unit: str) -> None:
    tail = log_tail("first" + unit * 100_000 + "last")

    assert len(tail) <= LOG_TAIL_CHARACTERS + 3
    assert tail.startswith("...")
    assert tail.endswith("last")
    assert tail.replace("\n", "").isprintable()
