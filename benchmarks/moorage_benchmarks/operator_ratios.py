"""What the operator takes beside floors of the same run, from the figures of `operator_brief`.

    figures of the operator's cases -> ratios -> gate

CPU time stands beside that of a process which makes the same children by hand, times of a burst
beside its times, latencies beside the median of a small write that nothing keeps waiting, a start
beside an interpreter that imports the operator's libraries. What does not depend on the machine is
counted as it is. More is worse in each. Pure.
"""

from collections.abc import Mapping
from typing import Any

Data = Mapping[str, Any]
Ratios = Mapping[str, float]


def of(found: Data) -> Ratios:
    """Every ratio of one run."""
    return {
        f"operator: {name}": ratio
        for part in (_starts(found), _burst(found), _changes(found), _idle(found))
        for name, ratio in part.items()
    }


def _cpu_by_hand(found: Data) -> float:
    """CPU seconds that the children of one model take without an operator."""
    return found["by_hand"]["cpu_seconds"] / found["by_hand"]["models"]


def _starts(found: Data) -> Ratios:
    empty, again = found["empty"], found["restart"]
    more = again["operator_cpu_seconds"] - empty["cpu_seconds_until_ready"]
    return {
        "CPU to ready": empty["cpu_seconds_until_ready"] / empty["libraries_cpu_seconds"],
        "memory without models": empty["rss_bytes"] / empty["libraries_rss_bytes"],
        "memory with models": found["idle"]["rss_bytes"] / empty["libraries_rss_bytes"],
        "CPU a model at a restart": more / again["models"] / _cpu_by_hand(found),
        "API requests of a restart": again["api_requests"],
    }


def _burst(found: Data) -> Ratios:
    floor, burst = found["by_hand"], found["burst"]
    cpu = burst["operator_cpu_seconds"] / burst["models"]
    exist, ready = floor["children_exist_seconds"], floor["all_available_seconds"]
    return {
        "CPU a model": cpu / _cpu_by_hand(found),
        "API requests a model": burst["api_requests_a_model"],
        "Services exist": burst["services_exist_seconds"] / exist,
        "children exist": burst["children_exist_seconds"] / exist,
        "all Ready": burst["all_ready_seconds"] / ready,
        "pods ready → Ready": _latency(found, burst, "pods_ready_to_ready_p50_seconds"),
        "pods ready → Ready beside hung servers": _latency(
            found, found["hung"]["beside"], "pods_ready_to_ready_p50_seconds"
        ),
    }


def _changes(found: Data) -> Ratios:
    changes, crashes = found["changes"], found["crashes"]
    cpu = changes["operator_cpu_milliseconds_a_change"] / 1000
    return {
        "CPU a change of readiness": cpu / _cpu_by_hand(found),
        "change → status, p50": _latency(found, changes, "change_to_status_p50_seconds"),
        "change → status, p99": _latency(found, changes, "change_to_status_p99_seconds"),
        "crash → reason": _latency(found, crashes, "crash_to_reason_p50_seconds"),
    }


def _idle(found: Data) -> Ratios:
    idle = found["idle"]
    cpu = idle["cpu_percent_of_a_core"] / 100
    return {
        "CPU of a second while idle": cpu / _cpu_by_hand(found),
        "writes while idle": idle["api_writes"],
    }


def _latency(found: Data, case: Data, name: str) -> float:
    return case[name] / found["by_hand"]["write_seconds"]
