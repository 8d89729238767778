"""How long after a pod's model is ready the status says Ready, on real pods.

::

    pod address known -> ask the pod every few ms -> model ready   (t0)
    watch of the pod                              -> pod Ready     (t1)
    watch of the InferenceModel                   -> Ready=True    (t2)

All three are times of one monotonic clock in this process, taken when it sees the event, so no
clocks are compared; kubectl's watches add their own millisecond or two to t1 and t2.
"""

import contextlib
import http.client
import json
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage_benchmarks import figures, programs
from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.report import Report, Table

NAMESPACE = "moorage-benchmark"
CONFIG_MAP = "digits"
HTTP_PORT = 8000
POLL_SECONDS = 0.005
POD_PATIENCE_SECONDS = 1
READY_SECONDS = 180
READY = '{.status.conditions[?(@.type=="Ready")].status}'
HOW = (
    "One InferenceModel after the other, of the digits example from a ConfigMap, with the default "
    "health settings and one replica; each is deleted before the next. The pod is asked for its "
    f"model every {POLL_SECONDS * 1000:.0f} ms by its address; pod and InferenceModel are "
    "watched with kubectl. pod Ready is what the kubelet's readiness probe adds, status Ready "
    "what the user sees. Seconds."
)


@dataclass(frozen=True)
class Times:
    """When the events were seen, in seconds of the monotonic clock; created is the apply."""

    created: float
    model_ready: float
    pod_ready: float
    status_ready: float


class Events:
    """The times at which events were first seen, by name; threads report them."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._changed = threading.Condition()

    def saw(self, name: str) -> None:
        """The event happens now, unless it has been seen before."""
        now = time.monotonic()
        with self._changed:
            self._seen.setdefault(name, now)
            self._changed.notify_all()

    def wait(self, name: str, seconds: float) -> float:
        """When the event was seen.

        Raises:
            BenchmarkError: It was not within so long.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: name in self._seen, seconds):
                raise BenchmarkError(f"not within {seconds} s: {name}; seen: {list(self._seen)}")
            return self._seen[name]


def measure(kubeconfig: str, *, models: int) -> Report:
    """The times of so many models in the cluster of the kubeconfig, where Moorage is installed.

    Raises:
        BenchmarkError: No cluster was named, or a model does not become Ready.
    """
    if not kubeconfig:
        raise BenchmarkError("set KUBECONFIG to the cluster to measure in; none is guessed")
    cluster = Path(kubeconfig)
    with _namespace(cluster):
        times = [_one(cluster, f"ready-{index}") for index in range(models)]
    return make_report(times)


def make_report(times: Sequence[Times]) -> Report:
    """The median and the 90th percentile of each distance. Pure."""
    distances = {
        "model ready → pod Ready": [each.pod_ready - each.model_ready for each in times],
        "pod Ready → status Ready": [each.status_ready - each.pod_ready for each in times],
        "model ready → status Ready": [each.status_ready - each.model_ready for each in times],
        "applied → status Ready": [each.status_ready - each.created for each in times],
    }
    rows = [
        [name, f"{figures.median(found):.3f}", f"{figures.percentile(found, 90):.3f}"]
        for name, found in distances.items()
    ]
    data: dict[str, Any] = {
        name.replace(" → ", "_to_").replace(" ", "_"): {
            "median_seconds": figures.median(found),
            "percentile_90_seconds": figures.percentile(found, 90),
            "all_seconds": found,
        }
        for name, found in distances.items()
    }
    title = f"Time to Ready, {len(times)} models"
    return Report(title, HOW, Table(["distance", "median", "90th percentile"], rows), data)


@contextlib.contextmanager
def _namespace(cluster: Path) -> Generator[None]:
    """A namespace of our own with the model's file; gone afterwards."""
    programs.kubectl(cluster, "create", "namespace", NAMESPACE)
    try:
        # before the namespace has its account, pods are refused and tried again seconds later
        account = ["get", "serviceaccount", "default", "--ignore-not-found", "-o", "name"]
        programs.wait_for(
            "the namespace has its service account",
            lambda: programs.kubectl(cluster, "-n", NAMESPACE, *account),
        )
        file = f"--from-file={programs.DIGITS / 'model.onnx'}"
        programs.kubectl(cluster, "-n", NAMESPACE, "create", "configmap", CONFIG_MAP, file)
        yield
    finally:
        programs.kubectl(cluster, "delete", "namespace", NAMESPACE)


def _one(cluster: Path, name: str) -> Times:
    events = Events()
    pods = ["pods", "-l", f"moorage.dev/model={name}"]
    wanted = '{.status.podIP} {.status.conditions[?(@.type=="Ready")].status}'
    ended = threading.Event()

    def on_pod(line: str) -> None:
        address, _, is_ready = line.partition(" ")
        if address:
            events.saw(f"address {address}")
            _ask_in_thread(address, name, events, ended)
        if is_ready == "True":
            events.saw("pod ready")

    def on_model(line: str) -> None:
        if line == "True":
            events.saw("status ready")

    try:
        with _watching(cluster, [*pods], wanted, _once_each(on_pod)):
            created = time.monotonic()
            programs.kubectl(cluster, "-n", NAMESPACE, "apply", "-f", "-", stdin=_model(name))
            with _watching(cluster, ["inferencemodels.moorage.dev", name], READY, on_model):
                status_ready = events.wait("status ready", READY_SECONDS)
                return Times(
                    created,
                    # a status before the model is ready would be a lie; then this ends in an error
                    events.wait("model ready", POD_PATIENCE_SECONDS),
                    events.wait("pod ready", READY_SECONDS),
                    status_ready,
                )
    finally:
        ended.set()
        programs.kubectl(
            cluster,
            "-n",
            NAMESPACE,
            "delete",
            "--ignore-not-found",
            "inferencemodels.moorage.dev",
            name,
        )
        programs.kubectl(cluster, "-n", NAMESPACE, "wait", "--for=delete", "--timeout=120s", *pods)


def _model(name: str) -> str:
    return json.dumps(
        {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceModel",
            "metadata": {"name": name},
            "spec": {"model": {"uri": f"configmap://{CONFIG_MAP}"}},
        }
    )


def _once_each(act: Callable[[str], None]) -> Callable[[str], None]:
    """Acts on a line only when it differs from all before."""
    seen: set[str] = set()

    def act_once(line: str) -> None:
        if line not in seen:
            seen.add(line)
            act(line)

    return act_once


@contextlib.contextmanager
def _watching(
    cluster: Path, what: Sequence[str], template: str, act: Callable[[str], None]
) -> Generator[None]:
    """Each change of the objects as a line by the template, in a thread of its own."""
    words = [*programs.kubectl_command(cluster), "-n", NAMESPACE, "get", *what, "--watch"]
    words += ["-o", f'jsonpath={template}{{"\\n"}}']
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            act(line.strip("\n"))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        thread.join()
        if process.stdout is not None:
            process.stdout.close()


def _ask_in_thread(address: str, name: str, events: Events, ended: threading.Event) -> None:
    def ask() -> None:
        while not ended.is_set():
            if _model_is_ready(address, name):
                events.saw("model ready")
                return
            ended.wait(POLL_SECONDS)

    threading.Thread(target=ask, daemon=True).start()


def _model_is_ready(address: str, name: str) -> bool:
    connection = http.client.HTTPConnection(address, HTTP_PORT, timeout=POD_PATIENCE_SECONDS)
    try:
        connection.request("GET", f"/v2/models/{name}/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
