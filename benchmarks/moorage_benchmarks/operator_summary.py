"""The few figures of the operator that the README shows.

results/operator-stress.json, results/operator-scale.json --> **summary** --> README
"""

from moorage_benchmarks.operator_scale import Figures, in_mebibytes, in_seconds
from moorage_benchmarks.report import Table

NOTHING = ""
"""Where the least of controllers has no such figure."""


def summary(stress: Figures, scale: Figures) -> Table:
    """A row for each figure, beside that of the least of controllers in the same run. Pure.

    Args:
        stress: The recorded results of `operator-stress`.
        scale: Those of `operator-scale`.
    """
    burst, floor = stress["burst"], stress["burst_by_hand"]
    largest = max((size for size in scale if size.isdecimal()), key=int)
    idle, restart = scale[largest]["idle"], scale["restart"]
    made = f"{burst['models']:,} models made at once"
    kept = f"{int(largest):,} models"
    shared = (
        ("all Deployments and Services exist", "children_exist_seconds"),
        ("all Ready", "all_ready_seconds"),
        ("pods ready → Ready, p50", "pods_ready_to_ready_p50_seconds"),
        ("pods ready → Ready, p99", "pods_ready_to_ready_p99_seconds"),
    )
    crash = stress["crashes"]["crash_to_reason_p99_seconds"]
    memory = in_mebibytes(idle["rss_bytes"])
    cpu = f"{idle['cpu_percent_of_a_core']:.1f} % of a core, {idle['api_writes']:.0f} writes"
    again = f"{in_seconds(restart['consistent_seconds'])}, {restart['api_writes']:.0f} writes"
    return Table(
        ["case", "figure", "Moorage", "least of controllers"],
        [
            *([made, what, in_seconds(burst[of]), in_seconds(floor[of])] for what, of in shared),
            [made, "API requests a model", f"{burst['api_requests_a_model']:.1f}", NOTHING],
            [
                f"{stress['crashes']['crashes']} crashes",
                "crash → reason, p99",
                in_seconds(crash),
                NOTHING,
            ],
            [kept, "memory", memory, NOTHING],
            [kept, "idle", cpu, NOTHING],
            [kept, "operator restarted, consistent", again, NOTHING],
        ],
    )
