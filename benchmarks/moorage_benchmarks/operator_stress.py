"""The operator under strain: a burst, a stream of changes, crashes, troublesome neighbours.

    scale (in namespaces of its own): cases -> figures -> Report

The cases come one after the other in one world, so each begins with what those before it left.
"""

from moorage_benchmarks.operator_scale import (
    SMALL_WRITE,
    SMALL_WRITES_HOW,
    Figures,
    burst_rows,
    grow_rows,
    in_mebibytes,
    in_seconds,
    spread,
)
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.scale.isolation import run_isolated

CASES = (
    "first",
    "by_hand",
    "burst_by_hand",
    "burst",
    "single",
    "few_changes_by_hand",
    "changes_by_hand",
    "few_changes",
    "changes",
    # while all are as they should be
    "bystanders",
    "crashes",
    "large",
    # last, for the operator never rests beside them
    "hung",
)
CHANGE_SECONDS = 20
# Models that become Ready beside others that are trouble.
SMALL = 100
HOW = (
    "A real kube-apiserver with etcd, the Deployment and ReplicaSet controllers, and the operator "
    "share the machine's cores; kwok plays the kubelets, and one server answers over HTTP at "
    "every pod's address. The operator has the chart's roles and a service account's token, and "
    "this process has a token too. Latencies end when this process's watch sees the status, and "
    "begin when its watch sees the pod; under a load that the machine cannot carry they tell of "
    "the machine. The load average is that of the minute before a case began, other work on the "
    "machine included. By hand: the same Services, Deployments and disruption budgets, created "
    "without models and an operator, and taken away again. Burst by hand and changes by hand: the "
    "same models and changes, served by the least of programs in place of the operator, which "
    "watches models and pods, makes each child by one POST, asks nobody and writes one condition; "
    "that is what the machine can do at most. "
    f"{SMALL_WRITES_HOW}"
)


def measure(
    *, burst: int, changing: int, changes_a_second: int, bystanders: int, idle_seconds: int
) -> Report:
    """Strain it in each way.

    Args:
        burst: Models that are made at once.
        changing: Models whose readiness changes, of which some crash and some hang later.
        changes_a_second: Of their readiness, all together.
        bystanders: Pods of others; 0 leaves them out.
        idle_seconds: How long the operator is watched before and after they come.

    Raises:
        BenchmarkError: This is not root, a program is missing, or something does not come about.
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
    """The figures as a table of case, figure and value. Pure."""
    return Report(
        "The operator under strain",
        HOW,
        Table(["case", "figure", "value"], [*_rows(found), *_load_rows(found)]),
        found,
    )


def _rows(found: Figures) -> list[list[str]]:
    crashes = found["crashes"]
    large, hung = found["large"], found["hung"]
    beside = f"{large['small_models']} models beside one with {large['large_replicas']} replicas"
    floor = found["by_hand"]
    by_hand = f"the children of {floor['models']} by hand"
    rows = [
        [
            by_hand,
            "all Deployments and Services exist",
            in_seconds(floor["children_exist_seconds"]),
        ],
        [by_hand, "all pods ready", in_seconds(floor["all_available_seconds"])],
        *burst_rows("burst by hand", found["burst_by_hand"]),
        *grow_rows("burst", found["burst"]),
        *_change_rows(found["few_changes"], found["few_changes_by_hand"]),
        *_change_rows(found["changes"], found["changes_by_hand"]),
        [f"{crashes['crashes']} crashes", "crash → reason", spread(crashes, "crash_to_reason")],
        [beside, "pods ready → Ready, alone", spread(large["alone"], "pods_ready_to_ready")],
        [beside, "pods ready → Ready, beside", spread(large["beside"], "pods_ready_to_ready")],
        [
            f"{hung['small_models']} models beside {hung['hung_models']} hung ones",
            "pods ready → Ready",
            spread(hung["beside"], "pods_ready_to_ready"),
        ],
    ]
    if "bystanders" in found:
        rows += _bystander_rows(found["bystanders"])
    return rows


def _change_rows(found: Figures, floor: Figures) -> list[list[str]]:
    case = f"{found['changes_a_second']:.0f} changes of readiness a second"
    cost = f"{found['operator_cpu_milliseconds_a_change']:.1f} ms"
    return [
        [case, "change → status", spread(found, "change_to_status")],
        [case, "change → status, by hand", spread(floor, "change_to_status")],
        [case, SMALL_WRITE, spread(found, "small_write")],
        [case, "operator CPU a change", cost],
    ]


def _bystander_rows(found: Figures) -> list[list[str]]:
    case = f"{found['pods']} pods of others"
    before, after = found["before"], found["after"]
    memory = f"{in_mebibytes(before['rss_bytes'])} → {in_mebibytes(after['rss_bytes'])}"
    cpu = [f"{each['cpu_percent_of_a_core']:.1f}" for each in (before, after)]
    made = f"{found['while_made_cpu_percent_of_a_core']:.1f}"
    return [
        [case, "memory before → after", memory],
        [case, "idle CPU before → after, % of a core", " → ".join(cpu)],
        [case, "CPU while they are made, % of a core", made],
    ]


def _load_rows(found: Figures) -> list[list[str]]:
    told = [f"{each['load_average']:.1f} ({name})" for name, each in found.items()]
    return [["the machine", "load average before each case", ", ".join(told)]]
