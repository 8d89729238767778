"""`moorage top`: usage and requests of each replica; pure.

CPU and memory come from the metrics API (metrics.k8s.io), requests from the metrics of the bundled
runtime (docs/reference/metrics-runtime.md). A value that is not available is shown as a dash. A
pod whose server does not run has a reason.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from moorage_cli.printing.report import Report
from moorage_cli.printing.tables import Cell, Palette, Tone, render

__all__ = ["Requests", "Usage", "read_quantity", "read_requests", "top", "why_idle"]

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
# Kubernetes, "Quantity": decimal and binary suffixes.
_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "E": 1e18, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
    "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")


@dataclass(frozen=True, slots=True)
class Requests:
    """Inference requests since the server started.

    Args:
        total: Number of requests.
        failed: Number of requests with an outcome other than ok.
        seconds: Sum of the latencies, from the decoded request to the response.
        timed: Number of requests in that sum.
    """

    total: int
    failed: int
    seconds: float
    timed: int


@dataclass(frozen=True, slots=True)
class Usage:
    """A pod's usage: cores, bytes and requests, None for an unknown value; and why it is idle."""

    namespace: str
    model: str
    pod: str
    cpu: float | None
    memory: float | None
    requests: Requests | None
    reason: str = ""


def why_idle(pod: Mapping[str, Any], container: str) -> str:
    """One word for the reason why a pod's server does not run; empty if it does.

    Args:
        pod: A pod of the API server.
        container: The name of the server's container.
    """
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status: Mapping[str, Any] = pod.get("status") or {}
    states: Mapping[str, Any] = next(
        (
            each.get("state") or {}
            for each in status.get("containerStatuses") or ()
            if each.get("name") == container
        ),
        {},
    )
    for state in ("waiting", "terminated"):
        if state in states:
            return str((states[state] or {}).get("reason") or state.capitalize())
    phase = str(status.get("phase") or "Pending")
    if phase == "Running":
        return ""
    unscheduled = (
        each.get("reason")
        for each in status.get("conditions") or ()
        if each.get("type") == "PodScheduled" and each.get("status") != "True"
    )
    return str(status.get("reason") or next(unscheduled, "") or phase)


def read_quantity(text: str) -> float | None:
    """A Kubernetes quantity as a number, or None if it is invalid."""
    match = _QUANTITY.fullmatch(text)
    if not match or match[2] not in _SUFFIXES:
        return None
    try:
        return float(match[1]) * _SUFFIXES[match[2]]
    except ValueError:
        return None


def read_requests(exposition: str, model: str) -> Requests | None:
    """One model's requests, or None if the text has no metrics of the runtime."""
    total = failed = timed = seconds = 0.0
    found = False
    for line in exposition.splitlines():
        match = _SAMPLE.match(line)
        if not match or not match["name"].startswith("moorage_"):
            continue
        found = True
        labels: Mapping[str, str] = dict(_LABEL.findall(match["labels"] or ""))
        value = _number(match["value"])
        if labels.get("model") != model:
            continue
        if match["name"] == "moorage_inferences_total":
            total += value
            failed += value if labels.get("outcome") != "ok" else 0.0
        elif match["name"] == "moorage_inference_seconds_sum":
            seconds += value
        elif match["name"] == "moorage_inference_seconds_count":
            timed += value
    return Requests(int(total), int(failed), seconds, int(timed)) if found else None


def top(
    usages: Sequence[Usage], notes: Sequence[str], palette: Palette, *, namespaces: bool
) -> Report:
    """One row per replica; the notes say why values are missing."""
    head = ("MODEL", "POD", "CPU", "MEMORY", "REQUESTS", "FAILED", "MEAN", "REASON")
    rows = [_row(usage, namespaces=namespaces) for usage in usages]
    shown = ("NAMESPACE", *head) if namespaces else head
    text = render(shown, rows, palette) if rows else "No replicas found.\n"
    remarks = "".join(f"{note}\n" for note in notes)
    document = {"replicas": [_document(usage) for usage in usages], "notes": list(notes)}
    return Report(f"{text}\n{remarks}" if remarks else text, document, ok=True)


def _row(usage: Usage, *, namespaces: bool) -> list[Cell]:
    requests = usage.requests
    mean = ""
    if requests is not None and requests.timed > 0:
        mean = f"{1000 * requests.seconds / requests.timed:.1f}ms"
    row = [
        Cell(usage.model),
        Cell(usage.pod),
        Cell("" if usage.cpu is None else f"{1000 * usage.cpu:.0f}m"),
        Cell("" if usage.memory is None else f"{usage.memory / 2**20:.0f}Mi"),
        Cell("" if requests is None else requests.total),
        Cell(
            "" if requests is None else requests.failed,
            Tone.BAD if requests and requests.failed else Tone.PLAIN,
        ),
        Cell(mean),
        Cell(usage.reason, Tone.UNSURE),
    ]
    return [Cell(usage.namespace), *row] if namespaces else row


def _document(usage: Usage) -> dict[str, Any]:
    return asdict(usage)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value < float("inf") else 0.0
