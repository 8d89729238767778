"""What an inference costs over each protocol, beside what the model alone costs.

The server is bound to one core and the client to another. Rounds take every load in turn, so
that a slow minute of the machine hits all of them; the medians of the rounds are compared.
CPU time is the server process's own, as the kernel counts it, so the client is not in it.
"""

import contextlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort

from moorage_benchmarks import figures, minimal_http, models, procfs, programs, workloads
from moorage_benchmarks.grpc_load import GrpcLoad
from moorage_benchmarks.http_load import HttpLoad
from moorage_benchmarks.programs import BenchmarkError, Runtime
from moorage_benchmarks.report import Report, Table
from moorage_benchmarks.workloads import Workload

# Requests under way: enough that the server never waits for the client's next one.
CONCURRENCY = workloads.UNDER_WAY
WARM_SECONDS = 0.5
# Runs of the model between two looks at the clock.
BATCH = 100
MODEL_ALONE = "ONNX Runtime alone"
MINIMAL_HTTP = "small: minimal server on uvloop and httptools"
# Row to folder of the repository.
MODELS_ALONE = {
    MODEL_ALONE: "digits",
    f"small: {MODEL_ALONE}": "small",
    f"image: {MODEL_ALONE}": "image",
}
HOW = (
    "The digits model, one picture of 64 floats a request; small: 4 features, 3 probabilities; "
    "image: 1x3x224x224 floats. The server is bound to one core, the client to another, "
    f"{CONCURRENCY} requests are under way at a time, 32 or one where it says so or the picture "
    "is JSON. CPU µs a request is the CPU time of the server's process, "
    "user and kernel; requests a second of one core is its inverse; "
    "answered a second is what the one client got, and busy how much of its core the server then "
    "used: the rest was spent waiting for the client or for other programs on this machine. Times "
    "alone compares with a loop that only calls the model in ONNX Runtime, in the same rounds on "
    "the same core. The minimal server parses, infers and answers, and checks, counts and limits "
    "nothing: the least that any Python program takes. Medians of the rounds; ± is half the range."
)


class Load(Protocol):
    """A client that repeats one request."""

    def ask(self) -> bytes:
        """One answer."""
        ...

    def run(self, seconds: float) -> int:
        """The number of answers within so long."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


@dataclass(frozen=True)
class Sample:
    """One measurement: answers, and how long they took by the clock and by the CPU."""

    requests: int
    wall_seconds: float
    cpu_seconds: float

    @property
    def cpu_microseconds(self) -> float:
        """CPU time for each request."""
        return self.cpu_seconds / self.requests * 1e6


def measure(*, rounds: int, seconds: float) -> Report:
    """Every protocol and the model alone.

    Args:
        rounds: Times that each is measured.
        seconds: Length of one measurement.

    Raises:
        BenchmarkError: There is one core only, or the server fails or answers wrongly.
    """
    server_core, client_core = two_cores()
    prepared = (*workloads.digits(programs.DIGITS), *workloads.small(), *workloads.image())
    with (
        tempfile.TemporaryDirectory() as folder,
        programs.pinned(server_core),
        _runtime(Path(folder)) as runtime,
        _minimal(Path(folder) / "small") as (minimal, port),
        programs.pinned(client_core),
    ):
        loads = {workload.name: _load(runtime, workload) for workload in prepared}
        for workload in prepared:
            _check(loads[workload.name], workload)
            loads[workload.name].run(WARM_SECONDS)

        def alone(session: ort.InferenceSession) -> Sample:
            with programs.pinned(server_core):
                return _run_alone(session, seconds)

        takes: dict[str, Callable[[], Sample]] = {
            name: partial(alone, _session(Path(folder) / model))
            for name, model in MODELS_ALONE.items()
        }
        for name, load in loads.items():
            takes[name] = lambda load=load: take(runtime.pid, load, seconds)
        least, asked = _least(port)
        _check(least, asked)
        least.run(WARM_SECONDS)
        takes[MINIMAL_HTTP] = lambda: take(minimal, least, seconds)
        samples: dict[str, list[Sample]] = {name: [] for name in takes}
        for _, (name, sample) in itertools.product(range(rounds), takes.items()):
            samples[name].append(sample())
        for load in (*loads.values(), least):
            load.close()
    return make_report(samples)


def make_report(samples: dict[str, list[Sample]]) -> Report:
    """The medians of each load's samples, beside those of the model alone. Pure."""
    rows: list[Sequence[str]] = []
    data: dict[str, Any] = {}
    for name, found in samples.items():
        cpu = [sample.cpu_microseconds for sample in found]
        rate = figures.median([sample.requests / sample.wall_seconds for sample in found])
        busy = figures.median([sample.cpu_seconds / sample.wall_seconds for sample in found])
        cost = figures.median(cpu)
        beside = samples[_alone_beside(name)]
        alone = figures.median([sample.cpu_microseconds for sample in beside])
        rows.append(
            [
                name,
                f"{cost:.1f} ± {figures.spread_percent(cpu):.0f} %",
                f"{1e6 / cost:,.0f}",
                f"{cost / alone:.1f}",
                f"{rate:,.0f}",
                f"{busy * 100:.0f} %",
            ]
        )
        data[name] = {
            "cpu_microseconds_per_request": cost,
            "requests_per_core_second": 1e6 / cost,
            "times_onnxruntime_alone": cost / alone,
            "answered_per_second": rate,
            "server_core_busy": busy,
            "rounds_cpu_microseconds_per_request": cpu,
        }
    head = ["load", "CPU µs a request", "requests/s of one core", "times alone"]
    return Report("Cost of an inference", HOW, Table([*head, "answered/s", "busy"], rows), data)


def _alone_beside(name: str) -> str:
    """The row of the model that a load asks: "small: OIP JSON" is compared within "small: "."""
    model, separator, _ = name.rpartition(": ")
    return model + separator + MODEL_ALONE


def _runtime(folder: Path) -> contextlib.AbstractContextManager[Runtime]:
    models.write(folder, programs.DIGITS / "model.onnx")
    return programs.runtime(f"--model-repository={folder}")


@contextlib.contextmanager
def _minimal(model: Path) -> Generator[tuple[int, int]]:
    """Process id and port of the minimal server of a model's folder."""
    words = [sys.executable, minimal_http.__file__, str(model / "1" / "model.onnx")]
    environment = {"PYTHONPATH": str(programs.ROOT / "benchmarks")}
    with programs.process(words, r"listening on (\d+)", environment) as (pid, found):
        yield pid, int(found[1])


def _least(port: int) -> tuple[Load, Workload]:
    """The first of ``small``, asked of the minimal server."""
    asked = workloads.small()[0]
    return HttpLoad(port, asked.http_request(port), asked.under_way), asked


def two_cores() -> tuple[int, int]:
    """One core for the server and one for the client.

    Raises:
        BenchmarkError: There is only one.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchmarkError("server and client need a core each, and this process may use one")
    return cores[0], cores[1]


def _session(folder: Path) -> ort.InferenceSession:
    """The model of a folder as the runtime opens it on one core."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = str(folder / "1" / "model.onnx")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _load(runtime: Runtime, workload: Workload) -> Load:
    if workload.is_grpc:
        return GrpcLoad(runtime.grpc_port, workload.target, workload.body, workload.under_way)
    return HttpLoad(
        runtime.http_port, workload.http_request(runtime.http_port), workload.under_way
    )


def _check(load: Load, workload: Workload) -> None:
    answer = load.ask()
    if workload.answer_holds not in answer:
        raise BenchmarkError(
            f"{workload.name}: {workload.answer_holds!r} is not in the answer: {answer[:500]!r}"
        )


def take(pid: int, load: Load, seconds: float) -> Sample:
    """One measurement of a server by its process id; the processes below it count as well."""
    cpu, wall = procfs.family_cpu_seconds(pid), time.monotonic()
    requests = load.run(seconds)
    return Sample(requests, time.monotonic() - wall, procfs.family_cpu_seconds(pid) - cpu)


def _run_alone(session: ort.InferenceSession, seconds: float) -> Sample:
    """Nothing but the model, in this thread."""
    (node,) = session.get_inputs()
    picture = np.zeros([size if isinstance(size, int) else 1 for size in node.shape], np.float32)
    names = [node.name for node in session.get_outputs()]
    cpu, wall = time.thread_time(), time.monotonic()
    requests = 0
    while time.monotonic() - wall < seconds:
        for _ in range(BATCH):
            session.run(names, {node.name: picture})
        requests += BATCH
    return Sample(requests, time.monotonic() - wall, time.thread_time() - cpu)
