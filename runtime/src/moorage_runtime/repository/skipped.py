"""What a scan says about the entries of a repository that are not models; pure.

Listing -> note() -> Note -> loader: a log line, and the problem that readiness names
"""

import logging
from typing import Final

import msgspec

from moorage_runtime.repository.contents.layout import EXPECTED
from moorage_runtime.repository.listing import Listing

# Maximum number of names in a log line.
_NAMED: Final = 20


class Note(msgspec.Struct, frozen=True):
    """What to say about one scan.

    Attributes:
        level: A level of ``logging``.
        line: The log line; "" if there is nothing to say.
        problem: Why no model can be served; "" if there is one.
    """

    level: int = logging.INFO
    line: str = ""
    problem: str = ""


def note(root: str, found: Listing) -> Note:
    """What to say about a repository.

    Args:
        root: Its path.
        found: What it contains.
    """
    named = ", ".join(found.skipped[:_NAMED])
    more = len(found.skipped) - _NAMED
    entries = f"{named} and {more} more" if more > 0 else named
    if found.models:
        return Note(line=f"skipped in the model repository: {entries}" if entries else "")
    content = {0: "no files", 1: "one entry, which cannot be served"}.get(
        len(found.skipped), f"{len(found.skipped)} entries, none of which can be served"
    )
    skipped = f"skipped {entries}" if entries else "it is empty"
    return Note(
        logging.WARNING,
        f"no models in {root}: {skipped}. Add a folder per model that contains {EXPECTED}.",
        f"the model repository contains {content}",
    )
