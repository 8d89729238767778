"""The operator measured in two minutes, with what its figures are compared with by the gate.

scale (in namespaces of its own): cases -> figures
"""

from collections.abc import Mapping
from typing import Any

from moorage_benchmarks.scale.isolation import run_isolated

CASES = (
    "empty",
    "first",
    "by_hand",
    "burst",
    "single",
    "changes",
    # while all are as they should be
    "idle",
    "restart",
    "crashes",
    "hung",
)
WORDS = (
    f"--cases={','.join(CASES)}",
    "--burst=200",
    "--changing=100",
    # what the machine carries, so that the latencies are the operator's
    "--changes-a-second=20",
    "--change-seconds=10",
    "--small=20",
    "--idle-seconds=15",
)


def measure() -> Mapping[str, Any]:
    """The figures of each case.

    Raises:
        BenchmarkError: This is not root, a program is missing, or something does not come about.
    """
    return run_isolated(WORDS)
