"""The operator with thousands of models: what it uses, how fast it follows, how it starts again.

scale (in namespaces of its own): sizes -> figures -> Report
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.scale.isolation import run_isolated

Figures = Mapping[str, Any]

SMALL_WRITE = "a small write meanwhile"
SMALL_WRITES_HOW = (
    "A small write meanwhile: a ConfigMap that nobody watches, written ten times a second by this "
    "process; no status can be told in less."
)
HOW = (
    "A real kube-apiserver with etcd, the Deployment and ReplicaSet controllers, and the operator "
    "share the machine's cores; kwok plays the kubelets, and one server answers over HTTP at "
    "every pod's address. The operator has the chart's roles and a service account's token. Two "
    "pods a model. Latencies end when this process's watch sees the status, and begin when its "
    "watch sees the pod; under a load that the machine cannot carry they tell of the machine. CPU "
    f"seconds, requests and memory tell of the operator. {SMALL_WRITES_HOW}"
)


def measure(*, sizes: Sequence[int], idle_seconds: int) -> Report:
    """Grow to each size, look at each, and start the operator again.

    Raises:
        BenchmarkError: This is not root, a program is missing, or something does not come about.
    """
    idle = f"--idle-seconds={idle_seconds}"
    return make_report(run_isolated([idle, f"--sizes={','.join(map(str, sizes))}"]))


def make_report(found: Figures) -> Report:
    """The figures as a table of case, figure and value. Pure."""
    rows: list[list[str]] = []
    for size, figures in found.items():
        if "idle" in figures:
            rows += _size_rows(f"{size} models", figures["grow"], figures["idle"])
    if "restart" in found:
        rows += _restart_rows(found["restart"])
    return Report("The operator at scale", HOW, Table(["case", "figure", "value"], rows), found)


def grow_rows(case: str, grow: Figures) -> list[list[str]]:
    """What it took the operator to make models at once. Pure."""
    made = _made(case, grow)
    return [
        *burst_rows(case, grow),
        [made, "operator CPU a model", _cpu(grow)],
        [made, "API requests a model", f"{grow['api_requests_a_model']:.1f}"],
    ]


def burst_rows(case: str, found: Figures) -> list[list[str]]:
    """How long it took until models that were made at once were served, by whomever. Pure."""
    made = _made(case, found)
    return [
        [made, "accepted by the API server", in_seconds(found["accepted_seconds"])],
        [made, "all Deployments and Services exist", in_seconds(found["children_exist_seconds"])],
        [made, "all Ready", in_seconds(found["all_ready_seconds"])],
        [made, "pods ready → Ready", spread(found, "pods_ready_to_ready")],
        [made, SMALL_WRITE, spread(found, "small_write")],
    ]


def _made(case: str, found: Figures) -> str:
    return f"{case}: {found['models']} made at once"


def _size_rows(case: str, grow: Figures, idle: Figures) -> list[list[str]]:
    return [
        *grow_rows(case, grow),
        [f"{case}, idle", "memory (RSS)", in_mebibytes(idle["rss_bytes"])],
        [f"{case}, idle", "CPU", f"{idle['cpu_percent_of_a_core']:.1f} % of a core"],
        [f"{case}, idle", "polls a second", f"{idle['polls_a_second']:.1f}"],
        [f"{case}, idle", "API writes", f"{idle['api_writes']:.0f}"],
    ]


def _restart_rows(found: Figures) -> list[list[str]]:
    case = f"{found['models']} models, operator restarted"
    return [
        [case, "consistent after", in_seconds(found["consistent_seconds"])],
        [case, "CPU", in_seconds(found["operator_cpu_seconds"])],
        [case, "API writes", f"{found['api_writes']:.0f}"],
        [case, "memory (RSS)", in_mebibytes(found["rss_bytes"])],
    ]


def spread(found: Figures, name: str) -> str:
    """Median, 99th percentile and the largest. Pure."""
    values = [found[f"{name}_{which}_seconds"] for which in ("p50", "p99", "max")]
    return "p50 {}, p99 {}, max {}".format(*map(in_seconds, values))


def in_seconds(value: float) -> str:
    """Seconds as people read them. Pure."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _cpu(grow: Figures) -> str:
    return f"{grow['operator_cpu_seconds'] / grow['models'] * 1000:.1f} ms"


def in_mebibytes(size: float) -> str:
    """Bytes as people read them. Pure."""
    return f"{size / 2**20:.0f} MiB"
