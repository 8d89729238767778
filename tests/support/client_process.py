"""A client that asks without a pause, in a process of its own, for as long as a block runs.

Its module is started by name, asks until its standard input ends, and prints JSON then.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
# A client's last question may take 10 s.
END_SECONDS = 30


@contextmanager
def client_process(module: str, *arguments: str) -> Iterator[dict[str, Any]]:
    """What the client told when it ended; empty until the block has ended."""
    told: dict[str, Any] = {}
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield told
        finally:
            output, _ = process.communicate("", timeout=END_SECONDS)
            told.update(json.loads(output))
