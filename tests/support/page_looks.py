"""What a browser computes of a page that is shown: contrast, overflow and focus."""

from pathlib import Path
from typing import Any

from support.browser import Browser

SCRIPTS = Path(__file__).parent / "page_scripts"
# WCAG 2.2, 1.4.3 and 1.4.11: contrast of text, and of the border of a control.
TEXT_CONTRAST, EDGE_CONTRAST = 4.5, 3.0


def contrast_problems(browser: Browser) -> list[str]:
    """The visible texts and controls with less contrast than the guidelines require."""
    answer: dict[str, Any] = _run(browser, "contrast.js", TEXT_CONTRAST, EDGE_CONTRAST)
    assert answer["texts"] > 10
    return answer["found"]


def overflow_problems(browser: Browser) -> list[str]:
    """What makes the page, or a part of it, scroll sideways or leaves the window."""
    return _run(browser, "overflow.js")


def has_visible_focus(browser: Browser) -> bool:
    """Whether the focused element is in the window, with an outline."""
    answer: dict[str, Any] = _run(browser, "focus.js")
    return answer["outline"] >= 2 and answer["isInside"]


def _run(browser: Browser, file: str, *arguments: Any) -> Any:
    return browser.run((SCRIPTS / file).read_text(), *arguments)
