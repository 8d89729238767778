"""The operator with delayed model events, which wait while a file exists.

A replacement for `moorage-operator` in which only the time differs at which a real event of the
API server is handled.

    python held_watch.py FILE [arguments of the operator]
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moorage_operator.__main__ import main
from moorage_operator.store.existence import Existence
from moorage_operator.store.store import Store
from moorage_operator.watch import kopf_source

LOOK_SECONDS = 0.02

take = kopf_source.take
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
    kopf_source.take = take_later
    sys.exit(main())
