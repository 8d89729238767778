"""What the server gets out of an NVIDIA GPU, compared with ONNX Runtime alone on it.

The library's rates come from calls in a loop, without a server, of one row and of 16. Every
load is measured in turn, in several rounds; the medians are compared.
"""

import contextlib
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from moorage_benchmarks import figures, gpu_models, programs
from moorage_benchmarks.http_load import HttpLoad
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report, Table
from moorage_runtime.backends.onnx import providers

CLIENTS = (1, 16, 64)
ROWS = (1, 16)
WARM_SECONDS = 1.0
PROVIDER = "CUDAExecutionProvider"
HOW = (
    "Rows per second on one {gpu}. The library's rows are ONNX Runtime alone, with 1 and 16 rows "
    "per run and the server's options. The other rows are the server with "
    "`--execution-provider=cuda`: requests of one row over HTTP with binary tensors, from so many "
    "connections at a time. Times library compares with the library's runs of one row. By "
    "default, requests for the dense model are merged, and those for convolutions are not. "
    "Rounds are interleaved. Figures are medians; ± is half the range."
)


def measure(*, rounds: int, seconds: float) -> Report:
    """Both models, by the library and by the server.

    Args:
        rounds: Times that each load is measured.
        seconds: Length of one measurement.

    Raises:
        BenchmarkError: There is no GPU, or the server fails.
    """
    if PROVIDER not in ort.get_available_providers():
        raise BenchmarkError(
            "ONNX Runtime has no CUDA here: install the extra gpu on a machine with an NVIDIA GPU"
        )
    ort.preload_dlls()
    loads: dict[tuple[str, str], Callable[[float], float]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        gpu_models.write(folder)
        for graph, rows in itertools.product(gpu_models.SHAPES, ROWS):
            loads[graph, f"library, {rows} per run"] = _library(folder, graph, rows)
        server = stack.enter_context(
            programs.runtime(f"--model-repository={folder}", "--execution-provider=cuda")
        )
        for served, clients in itertools.product(gpu_models.SERVED, CLIENTS):
            request = _request(server.http_port, served)
            load = HttpLoad(server.http_port, (request,), clients)
            stack.callback(load.close)
            plural = "s" if clients > 1 else ""
            loads[served, f"server, {clients} client{plural}"] = _served(load)
        for load in loads.values():
            load(WARM_SECONDS)
        rates: dict[tuple[str, str], list[float]] = {name: [] for name in loads}
        for _, (name, load) in itertools.product(range(rounds), loads.items()):
            rates[name].append(load(seconds))
    names = programs.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return make_report(rates, names.splitlines()[0])


def make_report(rates: Mapping[tuple[str, str], list[float]], gpu: str) -> Report:
    """The medians of each load's rates, compared with the library's runs of one row. Pure."""
    rows: list[list[str]] = []
    data: dict[str, Any] = {}
    for (model, load), found in rates.items():
        graph = gpu_models.SERVED[model][0]
        rate = figures.median(found)
        floor = figures.median(rates[graph, f"library, {ROWS[0]} per run"])
        spread = figures.spread_percent(found)
        rows.append([f"{model}: {load}", f"{rate:,.0f} ± {spread:.0f} %", f"{rate / floor:.2f}"])
        data[f"{model}: {load}"] = {"rows_per_second": found, "times_library": rate / floor}
    head = ("model: load", "rows/s", "times library")
    return Report("Models on a GPU", HOW.format(gpu=gpu), Table(head, rows), data)


def _library(folder: Path, graph: str, rows: int) -> Callable[[float], float]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        folder / gpu_models.name_of(graph) / "model.onnx",
        options,
        providers=providers.choice(providers.CUDA, tf32=False),
        enable_fallback=False,
    )
    feeds = {"x": np.ones((rows, *gpu_models.SHAPES[graph]), np.float32)}

    def run(seconds: float) -> float:
        count, started = 0, time.monotonic()
        while time.monotonic() - started < seconds:
            session.run(None, feeds)
            count += rows
        return count / (time.monotonic() - started)

    return run


def _served(load: HttpLoad) -> Callable[[float], float]:
    def run(seconds: float) -> float:
        started = time.monotonic()
        return load.run(seconds) / (time.monotonic() - started)

    return run


def _request(port: int, served: str) -> bytes:
    row = np.ones((1, *gpu_models.SHAPES[gpu_models.SERVED[served][0]]), np.float32)
    tensor: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": row.shape}
    tensor["parameters"] = {"binary_data_size": row.nbytes}
    asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    head = json.dumps(asked).encode()
    return (
        (
            f"POST /v2/models/{gpu_models.name_of(served)}/infer HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{port}\r\nContent-Length: {len(head) + row.nbytes}\r\n"
            f"Inference-Header-Content-Length: {len(head)}\r\n\r\n"
        ).encode()
        + head
        + row.tobytes()
    )
