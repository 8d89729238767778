"""What to do about a reason: the table of docs/reference/conditions.md, packaged as data.

`cli/make_data.py` writes the data from the page; a contract test compares the two.
"""

import json
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Advice", "advice_for"]


@dataclass(frozen=True, slots=True)
class Advice:
    """What a reason means, and what to do; `do` is empty where there is nothing to do."""

    means: str
    do: str


def _load() -> dict[str, Advice]:
    text = (files("moorage_cli") / "data" / "advice.json").read_text(encoding="utf-8")
    return {item["reason"]: Advice(item["means"], item["do"]) for item in json.loads(text)}


_ADVICE = _load()


def advice_for(reason: str) -> Advice | None:
    """The advice, None for a reason that this version does not know."""
    return _ADVICE.get(reason)
