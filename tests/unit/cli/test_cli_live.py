"""A view that is redrawn in place."""

import io
import re

from moorage_cli.printing.live import LiveView
from moorage_cli.printing.tables import SHOW_CURSOR

UP = "\x1b[1A"


def test_a_view_replaces_its_lines_is_cut_to_the_terminal_and_stays_at_the_end() -> None:
    stream = io.StringIO()
    with LiveView(stream, width=12, height=4) as live:
        live.show(lambda: "first\n" + "x" * 30)
        first = stream.getvalue()
        live.show(lambda: "\x1b[32msecond\x1b[0m\n[bold]\nc\nd\ne\nf " + "y" * 15)
        second = stream.getvalue().removeprefix(first)
    end = stream.getvalue().removeprefix(first + second)

    assert "x" * 11 + "…" in first
    assert "x" * 12 not in first
    assert second.count(UP) == 1
    assert "\x1b[32msecond" in second
    assert "[bold]" in second
    assert "..." in second
    assert "f" not in re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", second)
    assert "f" in end
    assert end.count("y") == 15
    assert end.rstrip("\n").endswith(SHOW_CURSOR)
