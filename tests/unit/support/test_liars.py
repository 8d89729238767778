"""Servers of tests end with the process that started them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
STARTER = """
from support.liars import attacking, lying
with attacking("silent") as one, lying("hangs") as other:
    print(one, other, flush=True)
    input()
"""


def listens(port: int) -> bool:
    """Whether a process listens on the port of this machine."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(f":{port:04X}" in line.split()[1] and line.split()[3] == "0A" for line in lines)


@pytest.mark.timeout(30)
def test_servers_end_with_a_killed_parent() -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert starter.stdout
    ports = [int(port) for port in starter.stdout.readline().split()]
    assert all(map(listens, ports))

    starter.kill()
    starter.communicate(timeout=10)

    deadline = time.monotonic() + 10
    while any(map(listens, ports)):
        assert time.monotonic() < deadline, "a server outlived its starter"
        time.sleep(0.02)
