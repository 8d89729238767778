"""The program that lies (`tests/liars/liar.py`), as a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIAR = Path(__file__).resolve().parents[1] / "liars" / "liar.py"

# What the program offers; a test compares.
LIES = (
    "yes-while-loading", "no-only-in-the-body", "ready-when-empty", "hangs", "hangs-in-the-body",
    "drips", "garbage", "not-json", "redirects", "huge", "huge-head", "bomb", "deep",
    "deep-in-place", "odd-unicode", "wrong-types", "numbers",
)  # fmt: skip


@contextmanager
def lying(lie: str) -> Iterator[int]:
    """The port of a server that lies so."""
    command = [sys.executable, LIAR, lie, "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=10)
