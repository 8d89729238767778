"""A view that is redrawn in place on a terminal; pure apart from its stream.

Lines that are wider than the terminal are cut, and a view that is higher is cut at its end. The
last view is whole.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

__all__ = ["LiveView"]

REDRAWS_PER_SECOND = 1


class LiveView:
    """Shows the latest of a text between enter and exit, and redraws it once a second.

    Args:
        stream: The terminal.
        width: Columns of the terminal; None to ask it.
        height: Lines of the terminal; None to ask it.
    """

    def __init__(
        self, stream: TextIO, *, width: int | None = None, height: int | None = None
    ) -> None:
        self._make: Callable[[], str] = str
        self._is_cut = True
        console = Console(
            file=stream,
            force_terminal=True,
            color_system="standard",
            no_color=False,
            markup=False,
            emoji=False,
            highlight=False,
            width=width,
            height=height,
        )
        self._live = Live(
            get_renderable=self._drawn,
            console=console,
            refresh_per_second=REDRAWS_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="ellipsis",
        )

    def __enter__(self) -> Self:
        """Begin with an empty view."""
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last view on the screen."""
        self._is_cut = False
        self._live.stop()

    def show(self, make: Callable[[], str]) -> None:
        """Show what this function returns, with its colours, from now on."""
        self._make = make
        self._live.refresh()

    def _drawn(self) -> Text:
        text = Text.from_ansi(self._make())
        if self._is_cut:
            text.no_wrap, text.overflow = True, "ellipsis"
        return text
