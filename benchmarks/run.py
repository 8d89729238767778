#!/usr/bin/env python3
"""`make bench`: measures, prints tables, and with --record saves them in results/.

    measure -> Report -> print, results/

Nothing here judges a figure, and no test depends on one.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from moorage_benchmarks import (
    gpu,
    grpc_transports,
    machine,
    operator_scale,
    operator_stress,
    peers,
    throughput,
)
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report

RESULTS = Path(__file__).resolve().parent / "results"
BENCHMARKS: Mapping[str, Callable[[argparse.Namespace], Report]] = {
    "runtime": lambda asked: throughput.measure(rounds=asked.rounds, seconds=asked.seconds),
    "grpc": lambda asked: grpc_transports.measure(rounds=asked.rounds, seconds=asked.seconds),
    "peers": lambda asked: peers.measure(rounds=asked.rounds, seconds=asked.seconds),
    "gpu": lambda asked: gpu.measure(rounds=asked.rounds, seconds=asked.seconds),
    "operator-scale": lambda asked: operator_scale.measure(
        sizes=asked.sizes, idle_seconds=asked.idle_seconds
    ),
    "operator-stress": lambda asked: operator_stress.measure(
        burst=asked.burst,
        changing=asked.changing,
        changes_a_second=asked.changes_a_second,
        bystanders=asked.bystanders,
        idle_seconds=asked.idle_seconds,
    ),
}
# Not every machine has a GPU.
DEFAULT = [name for name in BENCHMARKS if name != "gpu"]
EPILOG = """\
benchmarks:
  runtime   CPU time per request and requests per second of one core, in each protocol,
            compared with a minimal HTTP server
  grpc      CPU time of a gRPC call with each transport, compared with a minimal grpcio server
  peers     cost and latency of the runtime, Triton, MLServer and KServe's server; installs them
            from wheels into build/benchmarks/peers, 1.4 GB
  gpu       rows per second on an NVIDIA GPU, compared with ONNX Runtime alone; only on
            request; needs the extra gpu of the runtime
  operator-scale
            the operator with 100, 1,000 and 10,000 models; needs root, `localcluster/cluster
            install --fake-nodes`, about 8 GiB and an hour; runs in its own network and process
            namespaces
  operator-stress
            a burst of 1,000 models and a stream of readiness changes, compared with a baseline
            controller; crashes, hung servers, one model with 500 replicas, 20,000 unrelated
            pods; same requirements, about 3 GiB

examples:
  run.py                                         run all of them but gpu
  run.py runtime --rounds 9 --record
  run.py operator-scale --sizes 100,1000
  run.py operator-stress --burst 300 --bystanders 0
"""


def _benchmark(text: str) -> str:
    if text not in BENCHMARKS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is invalid: must be one of {', '.join(BENCHMARKS)}"
        )
    return text


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"{text!r} is invalid: must be a whole number of {least} or more"
            )
        return int(text)

    return parse


def _sizes(text: str) -> list[int]:
    parse = _at_least(1)
    sizes = [parse(part) for part in text.split(",")]
    if sizes != sorted(set(sizes)):
        raise argparse.ArgumentTypeError(f"{text!r} is invalid: sizes must increase")
    return sizes


class Option(NamedTuple):
    """An option of the command line with a value."""

    name: str
    parse: Callable[[str], Any]
    default: int | str
    metavar: str
    explanation: str


OPTIONS = (
    Option("--rounds", _at_least(1), 5, "N", "runtime, grpc, peers, gpu: interleaved rounds"),
    Option("--seconds", _at_least(1), 2, "S", "runtime, grpc, peers, gpu: seconds per round"),
    Option(
        "--sizes",
        _sizes,
        "100,1000,10000",
        "N,N",
        "operator-scale: numbers of models, in increasing order",
    ),
    Option("--burst", _at_least(1), 1000, "N", "operator-stress: models created at once"),
    Option(
        "--changing", _at_least(4), 400, "N", "operator-stress: models with changing readiness"
    ),
    Option(
        "--changes-a-second",
        _at_least(1),
        50,
        "N",
        "operator-stress: readiness changes per second",
    ),
    Option("--bystanders", _at_least(0), 20000, "N", "operator-stress: number of unrelated pods"),
    Option(
        "--idle-seconds",
        _at_least(1),
        60,
        "S",
        "operator-scale, operator-stress: seconds to observe each idle operator",
    ),
)


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Measures the performance of Moorage.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "benchmarks",
        nargs="*",
        type=_benchmark,
        metavar="BENCHMARK",
        help="benchmarks to run (default: all but gpu)",
    )
    for option in OPTIONS:
        parser.add_argument(
            option.name,
            type=option.parse,
            default=option.default,
            metavar=option.metavar,
            help=f"{option.explanation} (default %(default)s)",
        )
    parser.add_argument("--record", action="store_true", help="save the results in results/")
    return parser


def main() -> int:
    """Run the requested benchmarks; 0 if all of them succeed."""
    options = make_parser().parse_args()
    failed = False
    for name in options.benchmarks or DEFAULT:
        try:
            report = BENCHMARKS[name](options)
        except BenchmarkError as error:
            print(f"run.py {name}: {error}", file=sys.stderr)
            failed = True
            continue
        _show(name, report, is_recorded=options.record)
    return 1 if failed else 0


def _show(name: str, report: Report, *, is_recorded: bool) -> None:
    today, facts = datetime.now(UTC).date(), machine.facts()
    print(report.as_markdown(today, facts), flush=True)
    if is_recorded:
        (RESULTS / f"{name}.md").write_text(report.as_markdown(today, facts))
        (RESULTS / f"{name}.json").write_text(report.as_json(today, facts))
        if report.plot:
            (RESULTS / f"{name}.svg").write_text(report.plot)


if __name__ == "__main__":
    sys.exit(main())
