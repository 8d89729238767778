"""`moorage bench`: what the answers to requests at a fixed rate say about a server; pure.

Samples --> Report

The latency of a request counts from its scheduled time. A server that stalls therefore delays the
requests that it would have received meanwhile, as it delays those of real clients.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.sanitizing import clean
from moorage_cli.printing.tables import Palette, Tone

__all__ = ["Load", "Sample", "bench"]

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
ROWS, WIDTH = 12, 40
# Requests that this machine sends later than that change what is measured.
LATE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, with times in seconds since the start.

    Args:
        scheduled: When it had to be sent.
        sent: When this machine began to send it.
        ended: When its response was complete, or it failed.
        problem: Why it failed, such as `HTTP 503`; empty for a success.
    """

    scheduled: float
    sent: float
    ended: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """What was sent.

    Args:
        target: The server, for people.
        rate: Requests per second.
        seconds: How long requests were to be sent.
        interrupted: Whether the user ended it earlier.
    """

    target: str
    rate: float
    seconds: float
    interrupted: bool = False


def bench(load: Load, samples: Sequence[Sample], notes: Sequence[str], palette: Palette) -> Report:
    """The rates, the latencies and the failures; ok if there are answers and no failures."""
    good = sorted(each.ended - each.scheduled for each in samples if not each.problem)
    problems = Counter(each.problem for each in samples if each.problem)
    late = _percentile(sorted(each.sent - each.scheduled for each in samples), 99.0)
    # Until the last response, and at least as long as the requests were to take.
    span = max([len(samples) / load.rate, *(each.ended for each in samples)])
    achieved = len(good) / span if span else 0.0
    found = {_named(each): _percentile(good, each) for each in PERCENTILES}
    document: dict[str, Any] = {
        "target": load.target,
        "rate": load.rate,
        "seconds": load.seconds,
        "interrupted": load.interrupted,
        "sent": len(samples),
        "succeeded": len(good),
        "failed": sum(problems.values()),
        "failures": dict(problems.most_common()),
        "achievedRate": achieved,
        "latencySeconds": {**found, "max": good[-1] if good else None},
        "lateSeconds": {"p99": late},
    }
    warnings = list(notes)
    if late is not None and late > LATE_SECONDS:
        warnings.append(
            f"this machine sent requests up to {_milliseconds(late)} late (p99), which counts as "
            "latency: lower --rate, or use a faster client"
        )
    document["notes"] = warnings
    failed = ExitCode.INTERRUPTED if load.interrupted else ExitCode.NOT_OK
    ok = bool(good) and not problems and not load.interrupted
    text = _text(load, document, good, palette)
    return Report(text, document, ok, notes=tuple(warnings), failed=failed)


def _text(
    load: Load, document: dict[str, Any], latencies: Sequence[float], palette: Palette
) -> str:
    failed = document["failed"]
    tone = Tone.BAD if failed else Tone.PLAIN
    lines = [
        f"{clean(load.target)}: {load.rate:g} requests/s for {load.seconds:g} s"
        + (", interrupted" if load.interrupted else ""),
        f"  requests   {document['sent']} sent, {document['succeeded']} succeeded, "
        + palette.paint(f"{failed} failed", tone),
        f"  rate       {document['achievedRate']:.1f} successful responses/s",
    ]
    if latencies:
        shown = document["latencySeconds"].items()
        lines.append(
            "  latency    " + "   ".join(f"{name} {_milliseconds(each)}" for name, each in shown)
        )
        lines += ["", *_plot(latencies)]
    if document["failures"]:
        lines += ["", palette.paint("Failures", Tone.HEAD)]
        lines += [f"  {count:>7}  {clean(name)}" for name, count in document["failures"].items()]
    return "".join(f"{line}\n" for line in lines)


def _plot(latencies: Sequence[float]) -> list[str]:
    """How many requests have which latency, in rows whose limits grow by a constant factor."""
    low, high = max(latencies[0], 1e-6), max(latencies[-1], 1e-6)
    factor = (high / low) ** (1 / ROWS)
    if factor < 1.001:
        return [f"<= {_milliseconds(high):>8} | {'#' * WIDTH} {len(latencies)}"]
    counts = [0] * ROWS
    for each in latencies:
        row = int(math.log(max(each, low) / low, factor))
        counts[min(row, ROWS - 1)] += 1
    most = max(counts)
    bars = ["#" * math.ceil(WIDTH * count / most) for count in counts]
    return [
        f"<= {_milliseconds(low * factor ** (at + 1)):>8} | {bar} {count or ''}".rstrip()
        for at, (bar, count) in enumerate(zip(bars, counts, strict=True))
    ]


def _percentile(ordered: Sequence[float], percent: float) -> float | None:
    """The smallest value that this part of all values does not exceed; None without values."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _named(percent: float) -> str:
    return f"p{percent:g}"


def _milliseconds(seconds: float) -> str:
    value = 1000 * seconds
    return f"{value:.2f} ms" if value < 10 else f"{value:.0f} ms"
