"""Amounts of bytes: from Kubernetes quantities and from stores, formatted for people. Pure."""

import re

__all__ = ["in_bytes", "parse_quantity", "parse_size"]

UNITS = ("KiB", "MiB", "GiB", "TiB")
# Source: Kubernetes API conventions, "Quantity"; without milli and fractions, because it counts
# bytes.
QUANTITY = re.compile(r"([0-9]+)(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def in_bytes(count: int) -> str:
    """A number of bytes for people: 1536 is 1.5 KiB."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(UNITS))
    return f"{count / 1024**power:.1f} {UNITS[power - 1]}"


def parse_size(text: str) -> int | None:
    """A number of at most 18 digits, as stores report sizes; None for any other text."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def parse_quantity(text: str) -> int:
    """Bytes: 20Gi is 20 * 1024 ** 3, 20G is 20 * 1000 ** 3.

    Raises:
        ValueError: The text is not a valid amount.
    """
    found = QUANTITY.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is invalid: must be a number of bytes such as 20Gi")
    unit = found[2] or ""
    base = 1024 if unit.endswith("i") else 1000
    return int(found[1]) * base ** POWERS[unit[:1]]
