"""The programs of `tests/liars` as processes that end with the test's process."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

LIARS = Path(__file__).resolve().parents[1] / "liars"
LIAR = LIARS / "liar.py"

# What the program offers; a test compares.
LIES = (
    "yes-while-loading", "no-only-in-the-body", "ready-when-empty", "ready-with-other-models",
    "hangs", "hangs-in-the-body", "drips", "garbage", "not-json", "redirects", "huge", "huge-head",
    "bomb", "deep", "deep-in-place", "odd-unicode", "wrong-types", "numbers",
)  # fmt: skip


def lying(lie: str) -> AbstractContextManager[int]:
    """The port of a server that lies so."""
    return _running(LIAR, lie, 0)


def attacking(name: str, port: int = 0) -> AbstractContextManager[int]:
    """The port of a server that runs this hostile program."""
    return _running(LIARS / "hostile.py", name, port)


@contextmanager
def _running(program: Path, name: str, port: int) -> Generator[int]:
    where = ["--host", "127.0.0.1", "--port", str(port), "--end-with-stdin"]
    process = subprocess.Popen(
        [sys.executable, program, name, *where],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=10)
