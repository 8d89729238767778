"""The operator under stress: a burst, a stream of changes, crashes, misbehaving neighbors.

    scale (in its own namespaces): cases -> figures -> Report

The cases share one cluster and run one after the other, so each starts with what the earlier ones
left. A burst and a stream of changes also run with the baseline controller.
"""

from moorage_benchmarks.operator_scale import (
    Figures,
    cpu_per_model,
    in_mebibytes,
    in_seconds,
    spread,
)
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.scale.isolation import run_isolated

CASES = (
    "first",
    "burst_by_hand",
    "burst",
    "single",
    "changes_by_hand",
    "changes",
    # while all are as they should be
    "bystanders",
    "crashes",
    "large",
    # last, because the operator keeps polling beside them
    "hung",
)
CHANGE_SECONDS = 20
# Models that become Ready beside others that are in trouble.
SMALL = 100
HEAD = ("case", "figure", "operator", "baseline controller", "ratio")
NOTHING = ("", "")
"""Where the baseline controller has no such figure."""
BURST = (
    ("accepted by the API server", "accepted_seconds"),
    ("all Services exist", "services_exist_seconds"),
    ("all Deployments and Services exist", "children_exist_seconds"),
    ("all Ready", "all_ready_seconds"),
    ("pods ready → Ready, p50", "pods_ready_to_ready_p50_seconds"),
    ("pods ready → Ready, p99", "pods_ready_to_ready_p99_seconds"),
)
CHANGES = (
    ("change → status, p50", "change_to_status_p50_seconds"),
    ("change → status, p99", "change_to_status_p99_seconds"),
)
HOW = (
    "A real kube-apiserver with etcd, the Deployment and ReplicaSet controllers, and the "
    "operator share the cores of the machine. kwok simulates the kubelets, and one server "
    "answers over HTTP at every pod's address. The operator uses the chart's roles and a "
    "service account token, as the benchmark does. A latency begins when the benchmark's "
    "watch receives the pod, and ends when it receives the status. Under a load beyond the "
    "machine's capacity, latencies characterize the machine. The baseline controller serves "
    "the same models and changes in the same run instead of the operator. It watches "
    "models and pods, creates each child with one POST, polls no server and writes one "
    "condition; that is the most that the machine can do. The ratio divides the operator's "
    "figure by the baseline's."
)


def measure(
    *, burst: int, changing: int, changes_a_second: int, bystanders: int, idle_seconds: int
) -> Report:
    """Run all cases.

    Args:
        burst: Models created at once.
        changing: Models with changing readiness, of which some crash and some hang later.
        changes_a_second: Readiness changes per second of all these models together.
        bystanders: Unrelated pods; 0 skips the case.
        idle_seconds: How long the operator is observed before and after their creation.

    Raises:
        BenchmarkError: The process is not root, a program is missing, or a case times out.
    """
    cases = [case for case in CASES if bystanders or case != "bystanders"]
    words = [
        f"--cases={','.join(cases)}",
        f"--burst={burst}",
        f"--changing={changing}",
        f"--changes-a-second={changes_a_second}",
        f"--change-seconds={CHANGE_SECONDS}",
        f"--small={SMALL}",
        f"--bystanders={bystanders}",
        f"--idle-seconds={idle_seconds}",
    ]
    return make_report(run_isolated(words))


def make_report(found: Figures) -> Report:
    """The figures as a table, each beside that of the baseline controller. Pure."""
    changes = found["changes"]
    at_rate = f"{changes['changes_a_second']:.0f} readiness changes per second"
    cost = f"{changes['operator_cpu_milliseconds_a_change']:.1f} ms"
    rows = [
        *burst_rows(found["burst"], found["burst_by_hand"]),
        *([at_rate, *row] for row in _compared(changes, found["changes_by_hand"], CHANGES)),
        [at_rate, "operator CPU per change", cost, *NOTHING],
        *([*row, *NOTHING] for row in _other_rows(found)),
    ]
    loads = [f"{each['load_average']:.1f} ({name})" for name, each in found.items()]
    how = f"{HOW} Load averages before each case: {', '.join(loads)}."
    return Report("The operator under stress", how, Table(HEAD, rows), found)


def burst_rows(burst: Figures, floor: Figures) -> list[list[str]]:
    """What it takes to make models at once. Pure."""
    case = f"{burst['models']:,} models created at once"
    return [
        *([case, *row] for row in _compared(burst, floor, BURST)),
        [case, "API requests per model", f"{burst['api_requests_a_model']:.1f}", *NOTHING],
        [case, "operator CPU per model", cpu_per_model(burst), *NOTHING],
    ]


def _compared(
    found: Figures, floor: Figures, named: tuple[tuple[str, str], ...]
) -> list[list[str]]:
    return [
        [what, in_seconds(found[key]), in_seconds(floor[key]), f"{found[key] / floor[key]:.1f}"]
        for what, key in named
    ]


def _other_rows(found: Figures) -> list[list[str]]:
    """The cases without a baseline: case, figure, value."""
    crashes, large, hung = found["crashes"], found["large"], found["hung"]
    beside = f"{large['small_models']} models next to one with {large['large_replicas']} replicas"
    rows = [
        [f"{crashes['crashes']} crashes", "crash → reason", spread(crashes, "crash_to_reason")],
        [beside, "pods ready → Ready, alone", spread(large["alone"], "pods_ready_to_ready")],
        [beside, "pods ready → Ready, together", spread(large["beside"], "pods_ready_to_ready")],
        [
            f"{hung['small_models']} models next to {hung['hung_models']} with hung servers",
            "pods ready → Ready",
            spread(hung["beside"], "pods_ready_to_ready"),
        ],
    ]
    if "bystanders" in found:
        rows += _bystander_rows(found["bystanders"])
    return rows


def _bystander_rows(found: Figures) -> list[list[str]]:
    case = f"{found['pods']} unrelated pods"
    before, after = found["before"], found["after"]
    memory = f"{in_mebibytes(before['rss_bytes'])} → {in_mebibytes(after['rss_bytes'])}"
    cpu = [f"{each['cpu_percent_of_a_core']:.1f}" for each in (before, after)]
    made = f"{found['while_made_cpu_percent_of_a_core']:.1f}"
    return [
        [case, "memory before → after", memory],
        [case, "idle CPU before → after, % of a core", " → ".join(cpu)],
        [case, "CPU while they are created, % of a core", made],
    ]
