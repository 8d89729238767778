"""The operator with thousands of models: what it uses, how fast it reacts, how it restarts.

scale (in namespaces of its own): sizes -> figures -> Report
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.scale.isolation import run_isolated

Figures = Mapping[str, Any]

HOW = (
    "A real kube-apiserver with etcd, the Deployment and ReplicaSet controllers, and the "
    "operator share the cores of the machine. kwok simulates the kubelets, and one server "
    "answers over HTTP at every pod's address. The operator uses the chart's roles and a "
    "service account token. Each model has two pods. A latency begins when the benchmark's "
    "watch receives the pod, and ends when it receives the status. Under a load beyond the "
    "machine's capacity, latencies characterize the machine, whereas CPU seconds, requests "
    "and memory characterize the operator."
)


def measure(*, sizes: Sequence[int], idle_seconds: int) -> Report:
    """Grow to each size, look at each, and restart the operator.

    Raises:
        BenchmarkError: This is not root, a program is missing, or a case times out.
    """
    idle = f"--idle-seconds={idle_seconds}"
    return make_report(run_isolated([idle, f"--sizes={','.join(map(str, sizes))}"]))


def make_report(found: Figures) -> Report:
    """The figures as a table of case, figure and value. Pure."""
    rows: list[list[str]] = []
    for size, figures in found.items():
        if "idle" in figures:
            rows += _grow_rows(f"{size} models", figures["grow"])
            rows += [[f"{size} models, idle", *row] for row in idle_rows(figures["idle"])]
    if restart := found.get("restart"):
        case = f"{restart['models']} models, operator restarted"
        rows += [[case, *row] for row in restart_rows(restart)]
    return Report("The operator at scale", HOW, Table(["case", "figure", "value"], rows), found)


def idle_rows(idle: Figures) -> list[list[str]]:
    """What the operator uses while nothing changes. Pure."""
    return [
        ["memory (RSS)", in_mebibytes(idle["rss_bytes"])],
        ["CPU", f"{idle['cpu_percent_of_a_core']:.1f} % of a core"],
        ["API writes", f"{idle['api_writes']:.0f}"],
        ["polls per second", f"{idle['polls_a_second']:.1f}"],
    ]


def restart_rows(restart: Figures) -> list[list[str]]:
    """What a restart takes. Pure."""
    return [
        ["time until consistent", in_seconds(restart["consistent_seconds"])],
        ["API writes", f"{restart['api_writes']:.0f}"],
        ["CPU", in_seconds(restart["operator_cpu_seconds"])],
        ["memory (RSS)", in_mebibytes(restart["rss_bytes"])],
    ]


def _grow_rows(case: str, grow: Figures) -> list[list[str]]:
    made = f"{case}: {grow['models']} created at once"
    return [
        [made, "accepted by the API server", in_seconds(grow["accepted_seconds"])],
        [made, "all Deployments and Services exist", in_seconds(grow["children_exist_seconds"])],
        [made, "all Ready", in_seconds(grow["all_ready_seconds"])],
        [made, "pods ready → Ready", spread(grow, "pods_ready_to_ready")],
        [made, "operator CPU per model", cpu_per_model(grow)],
        [made, "API requests per model", f"{grow['api_requests_a_model']:.1f}"],
    ]


def spread(found: Figures, name: str) -> str:
    """Median, 99th percentile and the largest. Pure."""
    values = [found[f"{name}_{which}_seconds"] for which in ("p50", "p99", "max")]
    return "p50 {}, p99 {}, max {}".format(*map(in_seconds, values))


def in_seconds(value: float) -> str:
    """Seconds as people read them. Pure."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def cpu_per_model(grow: Figures) -> str:
    """CPU time of the operator. Pure."""
    return f"{grow['operator_cpu_seconds'] / grow['models'] * 1000:.1f} ms"


def in_mebibytes(size: float) -> str:
    """Bytes as people read them. Pure."""
    return f"{size / 2**20:.0f} MiB"
