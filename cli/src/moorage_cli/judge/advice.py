"""The meaning and fix of each reason, from the tables of docs/reference/conditions.md.

`make generate` makes the data from the page.
"""

import json
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Advice", "advice_for"]


@dataclass(frozen=True, slots=True)
class Advice:
    """The meaning of a reason, and its fix; `do` is empty if no action is required."""

    means: str
    do: str


def _load() -> dict[str, Advice]:
    text = (files("moorage_cli") / "data" / "advice.json").read_text(encoding="utf-8")
    return {item["reason"]: Advice(item["means"], item["do"]) for item in json.loads(text)}


_ADVICE = _load()


def advice_for(reason: str) -> Advice | None:
    """The advice, or None for an unknown reason."""
    return _ADVICE.get(reason)
