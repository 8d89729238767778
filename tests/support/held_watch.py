"""The operator, whose news of models waits as long as a file is there.

A program in place of `moorage-operator`: nothing but the moment is another at which a real event
of the API server is taken.

    python held_watch.py FILE [arguments of the operator]
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moorage_operator import handlers
from moorage_operator.__main__ import main
from moorage_operator.existence import Existence
from moorage_operator.store import Store

LOOK_SECONDS = 0.02

take = handlers.take
held = Path(sys.argv.pop(1))
waiting: list[tuple[Store, Existence, Mapping[str, Any]]] = []


def take_later(store: Store, existence: Existence, event: Mapping[str, Any]) -> None:
    """Take the event once the file is gone, after those before it."""
    waiting.append((store, existence, event))
    if len(waiting) == 1:
        take_waiting()


def take_waiting() -> None:
    """Take what waits, or look again soon."""
    if held.exists():
        asyncio.get_running_loop().call_later(LOOK_SECONDS, take_waiting)
        return
    while waiting:
        take(*waiting.pop(0))


if __name__ == "__main__":
    handlers.take = take_later
    sys.exit(main())
