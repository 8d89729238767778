"""Amounts of bytes: read, and formatted for people."""

import pytest

from moorage_runtime.fetch.decide.amounts import in_bytes, parse_quantity, parse_size
from moorage_runtime.fetch.transfer.progress import line


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("7", 7),
        ("2k", 2000),
        ("2Ki", 2048),
        ("3M", 3 * 10**6),
        ("3Mi", 3 * 2**20),
        ("20G", 2 * 10**10),
        ("20Gi", 20 * 2**30),
        ("1T", 10**12),
        ("1Ti", 2**40),
        ("1P", 10**15),
        ("1Pi", 2**50),
    ],
)
def test_a_quantity_is_read(text, count):
    assert parse_quantity(text) == count


@pytest.mark.parametrize("text", ["", "Gi", "1.5Gi", "-1", "1 Gi", "1K", "1gi", "1e3"])
def test_an_invalid_quantity_is_refused(text):
    with pytest.raises(ValueError, match=f"^'{text}' is invalid: must be .* such as 20Gi$"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
        (2**19, "512.0 KiB"), (2**20, "1.0 MiB"), (3 * 2**30, "3.0 GiB"), (2**40, "1.0 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)  # fmt: skip
def test_amounts_are_formatted_for_people(count, text):
    assert in_bytes(count) == text


def test_a_line_of_progress_has_bytes_files_and_speed():
    assert line(2**30, 4 * 2**30, 3, 12, 85 * 2.0**20) == (
        "1.0 GiB of 4.0 GiB (25 %), 3 of 12 files, 85.0 MiB/s"
    )
    assert line(2**30, 0, 0, 1, 0) == "1.0 GiB, 0 of 1 files, 0 B/s"


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_a_size_is_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1_0", "1.0", "\u0661", "9" * 19])
def test_any_other_size_is_unknown(text):
    assert parse_size(text) is None
