"""Text from untrusted servers: one printable line of bounded length."""

import pytest

from moorage_operator.values.words import printable, quoted, word


def test_only_unprintable_characters_are_escaped() -> None:
    assert printable("größe\x1b[1m") == "größe\\x1b[1m"


def test_a_message_is_one_printable_line() -> None:
    assert quoted(" a\n\x00b\u202ec\t") == "a b c"


def test_a_message_of_300_characters_is_whole() -> None:
    assert quoted("x" * 300) == "x" * 300
    assert quoted("x" * 301) == "x" * 299 + "…"


def test_only_the_beginning_of_a_long_message_is_read() -> None:
    assert quoted(" " * 2399 + "ab") == "a"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("iris", "iris"),
        (0, "0"),
        (10**20 - 1, "9" * 20),
        (-(10**20) + 1, "-" + "9" * 20),
        (10**20, ""),
        (-(10**20), ""),
        (True, ""),
        (1.0, ""),
        (None, ""),
    ],
)
def test_a_short_whole_number_is_a_word_too(value: object, text: str) -> None:
    assert word(value) == text
