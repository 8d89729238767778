"""The JSON paths of smoke tests: a small subset of RFC 9535; pure.

    path = ("$" / key / index) *("." key / index)
    key = 1*(letter / digit / "_" / "-")
    index = "[" digits "]"

`choices[0].message.content` and `$.choices[0].message.content` are the same path, and `$` is the
whole document. A path selects at most one value, so there are no wildcards, slices or filters.

Source: RFC 9535, JSONPath, section 2.3 (name and index selectors).
"""

import re
from collections.abc import Sequence

__all__ = ["JsonPath", "parse_json_path", "written_path"]

LIMIT_CHARACTERS = 256
EXPECTED = (
    f"a JSON path of at most {LIMIT_CHARACTERS} characters that consists of names and indexes, "
    "such as choices[0].message.content"
)

_KEY = "[A-Za-z0-9_-]+"
_INDEX = r"\[(?:0|[1-9][0-9]{0,5})\]"
_PATH = re.compile(rf"(\$|{_KEY}|{_INDEX})(\.{_KEY}|{_INDEX})*")
_STEP = re.compile(rf"\.?({_KEY})|({_INDEX})")

JsonPath = tuple[str | int, ...]
"""The steps of a path: names of members and indexes of elements."""


def parse_json_path(text: str) -> JsonPath | None:
    """Return the steps of a path, None if the text is invalid."""
    if len(text) > LIMIT_CHARACTERS or not _PATH.fullmatch(text):
        return None
    steps = _STEP.finditer(text)
    return tuple(each[1] if each[1] is not None else int(each[2][1:-1]) for each in steps)


def written_path(steps: Sequence[str | int]) -> str:
    """Write steps as a path without `$`, except for the whole document."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".") or "$"
