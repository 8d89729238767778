"""The operator with thousands of models: what it uses, how fast it follows, what troubles it.

    scale (in namespaces of its own): sizes, stress -> figures -> Report

`measure` runs both halves, each in a world of its own, so that neither's leftovers count in the
other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.scale.isolation import run_isolated

Figures = Mapping[str, Any]

HOW = (
    "A real kube-apiserver with etcd, the Deployment and ReplicaSet controllers, and the operator "
    "share the machine's cores; kwok plays the kubelets, and one server answers over HTTP at "
    "every pod's address. Two pods a model. Latencies end when this process's watch sees the "
    "status, and begin when its watch sees the pod; under a load that the machine cannot carry "
    "they tell of the machine. CPU seconds, requests and memory tell of the operator."
)


def measure(*, sizes: Sequence[int], bystanders: int, idle_seconds: int) -> Report:
    """Grow to each size, look at each; then the cases that strain it.

    Raises:
        BenchmarkError: This is not root, a program is missing, or something does not come about.
    """
    idle = f"--idle-seconds={idle_seconds}"
    grown = run_isolated([idle, f"--sizes={','.join(map(str, sizes))}"])
    strained = run_isolated([idle, "--stress", f"--bystanders={bystanders}"])
    return make_report({**grown, "stress": strained})


def make_report(found: Figures) -> Report:
    """The figures as a table of case, figure and value. Pure."""
    rows: list[list[str]] = []
    for size, figures in found.items():
        if "idle" in figures:
            rows += _size_rows(f"{size} models", figures["grow"], figures["idle"])
    if "restart" in found:
        rows += _restart_rows(found["restart"])
    if "stress" in found:
        rows += _stress_rows(found["stress"])
    return Report("The operator at scale", HOW, Table(["case", "figure", "value"], rows), found)


def _size_rows(case: str, grow: Figures, idle: Figures) -> list[list[str]]:
    made = f"{case}: {grow['models']} made at once"
    return [
        [made, "accepted by the API server", _seconds(grow["accepted_seconds"])],
        [made, "all Deployments and Services exist", _seconds(grow["children_exist_seconds"])],
        [made, "all Ready", _seconds(grow["all_ready_seconds"])],
        [made, "pods ready → Ready", _spread(grow, "pods_ready_to_ready")],
        [made, "operator CPU a model", _cpu(grow)],
        [made, "API requests a model", f"{grow['api_requests_a_model']:.1f}"],
        [f"{case}, idle", "memory (RSS)", _mebibytes(idle["rss_bytes"])],
        [f"{case}, idle", "CPU", f"{idle['cpu_percent_of_a_core']:.1f} % of a core"],
        [f"{case}, idle", "polls a second", f"{idle['polls_a_second']:.1f}"],
        [f"{case}, idle", "API writes", f"{idle['api_writes']:.0f}"],
    ]


def _restart_rows(found: Figures) -> list[list[str]]:
    case = f"{found['models']} models, operator restarted"
    return [
        [case, "consistent after", _seconds(found["consistent_seconds"])],
        [case, "CPU", _seconds(found["operator_cpu_seconds"])],
        [case, "API writes", f"{found['api_writes']:.0f}"],
        [case, "memory (RSS)", _mebibytes(found["rss_bytes"])],
    ]


def _stress_rows(found: Figures) -> list[list[str]]:
    changes, crashes = found["changes"], found["crashes"]
    large, hung = found["large"], found["hung"]
    steady = f"{changes['changes_a_second']:.0f} changes of readiness a second"
    cost = f"{changes['operator_cpu_milliseconds_a_change']:.1f} ms"
    beside = f"{large['small_models']} models beside one with {large['large_replicas']} replicas"
    rows = [
        [steady, "change → status", _spread(changes, "change_to_status")],
        [steady, "operator CPU a change", cost],
        [f"{crashes['crashes']} crashes", "crash → reason", _spread(crashes, "crash_to_reason")],
        [beside, "pods ready → Ready, alone", _spread(large["alone"], "pods_ready_to_ready")],
        [beside, "pods ready → Ready, beside", _spread(large["beside"], "pods_ready_to_ready")],
        [
            f"{hung['small_models']} models beside {hung['hung_models']} hung ones",
            "pods ready → Ready",
            _spread(hung["beside"], "pods_ready_to_ready"),
        ],
    ]
    if "bystanders" in found:
        rows += _bystander_rows(found["bystanders"])
    return rows


def _bystander_rows(found: Figures) -> list[list[str]]:
    case = f"{found['pods']} pods of others"
    before, after = found["before"], found["after"]
    memory = f"{_mebibytes(before['rss_bytes'])} → {_mebibytes(after['rss_bytes'])}"
    cpu = [f"{each['cpu_percent_of_a_core']:.1f}" for each in (before, after)]
    made = f"{found['while_made_cpu_percent_of_a_core']:.1f}"
    return [
        [case, "memory before → after", memory],
        [case, "idle CPU before → after, % of a core", " → ".join(cpu)],
        [case, "CPU while they are made, % of a core", made],
    ]


def _spread(found: Figures, name: str) -> str:
    values = [found[f"{name}_{which}_seconds"] for which in ("p50", "p99", "max")]
    return "p50 {}, p99 {}, max {}".format(*map(_seconds, values))


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _cpu(grow: Figures) -> str:
    return f"{grow['operator_cpu_seconds'] / grow['models'] * 1000:.1f} ms"


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"
