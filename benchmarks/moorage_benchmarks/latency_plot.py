"""Latencies as a picture: a bar from the median to the 99th percentile for each server. Pure.

The axis is logarithmic, since servers differ by factors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 720, 190, 90, 46, 34
_TEXT, _FAINT, _BAR = "#24292f", "#d0d7de", "#0969da"


@dataclass(frozen=True)
class Range:
    """One server.

    Attributes:
        name: As it shall be shown.
        p50: Median, in milliseconds.
        p99: 99th percentile, in milliseconds.
    """

    name: str
    p50: float
    p99: float


def svg(title: str, ranges: Sequence[Range]) -> str:
    """The picture, a bar for each range from above in their order.

    Raises:
        ValueError: There are no ranges, or a latency is not positive.
    """
    if not ranges or min(each.p50 for each in ranges) <= 0:
        raise ValueError("a picture needs latencies of more than 0 ms")
    least = math.floor(math.log10(min(each.p50 for each in ranges)))
    most = math.ceil(math.log10(max(each.p99 for each in ranges)))
    most = max(most, least + 1)

    def x(milliseconds: float) -> float:
        share = (math.log10(milliseconds) - least) / (most - least)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    bottom = _TOP + _ROW * len(ranges)
    parts = [_text(12, 22, title, weight="bold")]
    for exponent in range(least, most + 1):
        at = x(10**exponent)
        parts.append(
            f'<line x1="{at:.1f}" y1="{_TOP - 8}" x2="{at:.1f}" y2="{bottom}" stroke="{_FAINT}"/>'
        )
        parts.append(_text(at, bottom + 18, f"{10**exponent:g} ms", anchor="middle"))
    for row, each in enumerate(ranges):
        middle = _TOP + _ROW * row + _ROW // 2
        start, end = x(each.p50), x(each.p99)
        parts.append(_text(_LEFT - 12, middle + 4, each.name, anchor="end"))
        parts.append(
            f'<rect x="{start:.1f}" y="{middle - 7}" width="{max(end - start, 2):.1f}" '
            f'height="14" rx="3" fill="{_BAR}"/>'
        )
        parts.append(_text(end + 8, middle + 4, f"{_short(each.p50)} to {_short(each.p99)}"))
    size = f'width="{_WIDTH}" height="{bottom + 30}" viewBox="0 0 {_WIDTH} {bottom + 30}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'font-family="sans-serif" font-size="13">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _short(milliseconds: float) -> str:
    return f"{milliseconds:.{2 if milliseconds < 10 else 0}f}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{_TEXT}">{escape(text)}</text>'
    )
