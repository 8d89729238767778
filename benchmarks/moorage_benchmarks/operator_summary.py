"""The few figures of the operator that the README shows.

results/operator-stress.json, results/operator-scale.json --> **summary** --> README
"""

from moorage_benchmarks.operator_scale import Figures, idle_rows, in_seconds, restart_rows
from moorage_benchmarks.operator_stress import HEAD, NOTHING, burst_rows
from moorage_benchmarks.report import Table

SHOWN = (
    "all Deployments and Services exist",
    "all Ready",
    "pods ready → Ready, p50",
    "pods ready → Ready, p99",
    "API requests per model",
)


def summary(stress: Figures, scale: Figures) -> Table:
    """A row per figure, beside that of the baseline controller in the same run. Pure.

    Args:
        stress: The recorded results of `operator-stress`.
        scale: Those of `operator-scale`.
    """
    burst = burst_rows(stress["burst"], stress["burst_by_hand"])
    crashes = stress["crashes"]
    crash = in_seconds(crashes["crash_to_reason_p99_seconds"])
    largest = max((size for size in scale if size.isdecimal()), key=int)
    kept = f"{int(largest):,} models"
    idle, restart = idle_rows(scale[largest]["idle"])[:3], restart_rows(scale["restart"])[:2]
    return Table(
        HEAD,
        [
            *(row for row in burst if row[1] in SHOWN),
            [f"{crashes['crashes']} crashes", "crash → reason, p99", crash, *NOTHING],
            *([f"{kept}, idle", *row, *NOTHING] for row in idle),
            *([f"{kept}, operator restarted", *row, *NOTHING] for row in restart),
        ],
    )
