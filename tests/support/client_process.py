"""A client that sends requests continuously from its own process while a block runs.

Its module is started by name, sends requests until its standard input ends, and then prints JSON.
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
    """The output of the client when it ended; empty until the block has ended."""
    result: dict[str, Any] = {}
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield result
        finally:
            output, _ = process.communicate("", timeout=END_SECONDS)
            result.update(json.loads(output))
