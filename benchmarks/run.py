#!/usr/bin/env python3
"""`make bench`: measure, print a table, and with --record keep it in results/.

    measure -> Report -> print, results/

Nothing here decides whether a number is good; no test depends on one.
"""

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from moorage_benchmarks import (
    batching,
    grpc_transports,
    health,
    machine,
    memory,
    operator_scale,
    operator_stress,
    peers,
    ready_time,
    start,
    throughput,
    workers,
)
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report

RESULTS = Path(__file__).resolve().parent / "results"
MEASURES = (
    "runtime",
    "grpc",
    "batching",
    "workers",
    "start",
    "memory",
    "health",
    "peers",
    "ready",
    "operator-scale",
    "operator-stress",
)
# Those that touch nothing but what they start.
UNASKED = ("runtime", "batching", "workers", "start", "memory", "health")
EPILOG = """\
measures:
  runtime   requests a second of one core and CPU time a request, beside a bare ONNX Runtime loop
  grpc      CPU time of a gRPC call by each transport, and of a minimal server on grpcio
  batching  a medium model batched and not, one request at a time and many
  workers   small requests with one worker process and with two
  start     from the command to ready, with one worker process and with two
  memory    of both programs at rest; starts a control plane of its own on loopback
  health    what health checks wait while the runtime reads requests of 60 MiB; takes some
            minutes and 6 GiB
  peers     the runtime beside Triton, MLServer and KServe's server: cost and latency; installs
            them from their wheels into build/benchmarks/peers, 1.4 GB
  ready     from a pod's model-ready to Ready in the status, on real pods; works in the cluster
            that KUBECONFIG names, in a namespace of its own, and is never run unasked
  operator-scale
            the operator with 100, 1,000 and 10,000 models; needs root, `localcluster/cluster
            install --fake-nodes`, some 8 GiB and an hour; in network and process namespaces of
            its own
  operator-stress
            a thousand models at once, 200 changes of readiness a second, crashes, hung servers,
            one model with 500 replicas, 20,000 pods of others; needs the same, some 3 GiB

examples:
  run.py                                         all that start what they measure
  run.py runtime --rounds 9
  KUBECONFIG=dev.kubeconfig run.py ready --models 20 --record
  run.py operator-scale --sizes 100,1000
  run.py operator-stress --burst 300 --changes-a-second 100
"""


def _measure(text: str) -> str:
    if text not in MEASURES:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(MEASURES)}")
    return text


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of {least} or more")
        return int(text)

    return parse


def _sizes(text: str) -> list[int]:
    parse = _at_least(1)
    sizes = [parse(part) for part in text.split(",")]
    if sizes != sorted(set(sizes)):
        raise argparse.ArgumentTypeError(f"{text!r} does not grow from size to size")
    return sizes


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Measures Moorage.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "measures",
        nargs="*",
        type=_measure,
        metavar="MEASURE",
        help=f"what to measure (default: {' '.join(UNASKED)})",
    )
    parser.add_argument(
        "--rounds",
        type=_at_least(1),
        default=5,
        metavar="N",
        help="times that every load of a server is measured, in turns (default %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=_at_least(1),
        default=2,
        metavar="S",
        help="length of one such measurement (default %(default)s)",
    )
    parser.add_argument(
        "--models",
        type=_at_least(1),
        default=10,
        metavar="N",
        help="ready: InferenceModels, one after the other (default %(default)s)",
    )
    parser.add_argument(
        "--sizes",
        type=_sizes,
        default="100,1000,10000",
        metavar="N,N",
        help="operator-scale: models to grow to, one after the other (default %(default)s)",
    )
    parser.add_argument(
        "--bystanders",
        type=_at_least(0),
        default=20000,
        metavar="N",
        help="operator-stress: pods of others (default %(default)s)",
    )
    parser.add_argument(
        "--burst",
        type=_at_least(1),
        default=1000,
        metavar="N",
        help="operator-stress: models that are made at once (default %(default)s)",
    )
    parser.add_argument(
        "--changing",
        type=_at_least(4),
        default=400,
        metavar="N",
        help="operator-stress: models whose readiness changes (default %(default)s)",
    )
    parser.add_argument(
        "--changes-a-second",
        type=_at_least(1),
        default=200,
        metavar="N",
        help="operator-stress: changes of their readiness (default %(default)s)",
    )
    parser.add_argument(
        "--idle-seconds",
        type=_at_least(1),
        default=60,
        metavar="S",
        help="operator-scale, operator-stress: how long each idle operator is watched "
        "(default %(default)s)",
    )
    parser.add_argument("--record", action="store_true", help="write the results to results/")
    return parser


def main() -> int:
    """Measure what was asked for; 0 when all of it worked."""
    options = make_parser().parse_args()
    measures: dict[str, Callable[[], Report]] = {
        "runtime": lambda: throughput.measure(rounds=options.rounds, seconds=options.seconds),
        "grpc": lambda: grpc_transports.measure(rounds=options.rounds, seconds=options.seconds),
        "batching": lambda: batching.measure(rounds=options.rounds, seconds=options.seconds),
        "workers": lambda: workers.measure(rounds=options.rounds, seconds=options.seconds),
        "start": lambda: start.measure(rounds=options.rounds),
        "memory": memory.measure,
        "health": lambda: health.measure(rounds=options.rounds, seconds=options.seconds),
        "peers": lambda: peers.measure(rounds=options.rounds, seconds=options.seconds),
        "ready": lambda: ready_time.measure(
            os.environ.get("KUBECONFIG", ""), models=options.models
        ),
        "operator-scale": lambda: operator_scale.measure(
            sizes=options.sizes, idle_seconds=options.idle_seconds
        ),
        "operator-stress": lambda: operator_stress.measure(
            burst=options.burst,
            changing=options.changing,
            changes_a_second=options.changes_a_second,
            bystanders=options.bystanders,
            idle_seconds=options.idle_seconds,
        ),
    }
    facts = machine.facts()
    for name in options.measures or UNASKED:
        try:
            report = measures[name]()
        except BenchmarkError as error:
            print(f"run.py {name}: {error}", file=sys.stderr)
            return 1
        today = datetime.now(UTC).date()
        print(report.as_markdown(today, facts))
        if options.record:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{name}.md").write_text(report.as_markdown(today, facts))
            (RESULTS / f"{name}.json").write_text(report.as_json(today, facts))
            if report.plot:
                (RESULTS / f"{name}.svg").write_text(report.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
