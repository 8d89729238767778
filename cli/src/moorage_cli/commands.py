"""The commands: each gathers what it needs and hands it to the pure module of its name."""

import argparse
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import grpc

from . import completion, conformance, inference, inference_grpc, traffic, wire
from .failures import Failure, WrongUsage
from .lint import lint
from .model_view import ModelView, view
from .onnx_file import read_onnx
from .port_forward import PortForward
from .report import Report
from .status import status_of_many, status_of_one
from .tables import Palette
from .why import EventView, why

__all__ = ["RUN", "Shell"]

HTTP_PORT = "http"
GRPC_PORT = "grpc"
SCHEMES = {HTTP_PORT: "http", GRPC_PORT: "grpc"}
RUNTIME_CONTAINER = "runtime"
PODS_WITH_EVENTS = 5


class ClusterLike(Protocol):
    """What the commands need of a cluster; `cluster.Cluster` is one."""

    namespace: str

    def models(self, namespace: str | None) -> list[dict[str, Any]]: ...
    def model(self, namespace: str, name: str) -> dict[str, Any]: ...
    def changes(self, namespace: str | None, name: str) -> Iterator[dict[str, Any]]: ...
    def events(self, namespace: str, names: list[str]) -> list[EventView]: ...
    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]: ...
    def pod_metrics(self, namespace: str, selector: str) -> list[dict[str, Any]]: ...
    def forward(self, namespace: str, pod: str, port: int) -> PortForward: ...


@dataclass(frozen=True, slots=True)
class Shell:
    """Where a command stands: how it finds its cluster, paints, and shows rows of a watch."""

    connect: Callable[[argparse.Namespace], ClusterLike]
    palette: Palette
    show: Callable[[Report], None]


def run_status(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage status`."""
    cluster = shell.connect(given)
    namespace = None if given.all_namespaces else given.namespace or cluster.namespace
    if given.name and namespace is None:
        raise WrongUsage("NAME: a name is looked for in one namespace; leave --all-namespaces out")
    if given.watch:
        return _watched(shell, cluster, namespace, given)
    if given.name:
        model = view(cluster.model(namespace or "", given.name))
        return status_of_one(model, datetime.now(UTC), shell.palette)
    return _many(shell, [view(item) for item in cluster.models(namespace)], given)


def _many(shell: Shell, models: list[ModelView], given: argparse.Namespace) -> Report:
    now = datetime.now(UTC)
    return status_of_many(models, now, shell.palette, namespaces=given.all_namespaces)


def _watched(
    shell: Shell, cluster: ClusterLike, namespace: str | None, given: argparse.Namespace
) -> Report:
    """Show each change until interrupted; the same row twice is shown once."""
    shown: dict[tuple[str, str], object] = {}
    for resource in cluster.changes(namespace, given.name):
        model = view(resource)
        told = _many(shell, [model], given)
        key = (model.namespace, model.name)
        if shown.get(key) != told.document:
            shell.show(told)
        shown[key] = told.document
    raise Failure("the watch ended")


def run_why(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage why`."""
    cluster = shell.connect(given)
    model = view(cluster.model(given.namespace or cluster.namespace, given.name))
    pods = [replica.pod for replica in model.replicas if replica.reason][:PODS_WITH_EVENTS]
    events = cluster.events(model.namespace, list(dict.fromkeys([model.name, *pods])))
    return why(model, events, datetime.now(UTC), shell.palette)


def run_infer(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage infer`."""
    document = inference.read_document(_read(given.file), given.file)
    cluster = shell.connect(given)
    model = view(cluster.model(given.namespace or cluster.namespace, given.name))
    protocol = given.protocol or model.protocol
    if protocol not in set(inference.InferenceProtocol):
        raise Failure(
            f"{model.name}: no server of it has answered in a protocol yet; see "
            f"moorage why {model.name}, or choose one by --protocol"
        )
    asked = inference.InferenceProtocol(protocol), model.served_name, given.model_version, document
    if given.transport == "GRPC":
        call = inference_grpc.make_call(*asked)
        with _address(cluster, model, given.via, GRPC_PORT) as address:
            return inference_grpc.answered_call(call, wire.infer(address, call, given.timeout))
    request = inference.make_request(*asked)
    with _address(cluster, model, given.via, HTTP_PORT) as address:
        code, body = wire.post(address, request, given.timeout)
    return inference.answered(request, code, body)


def run_lint(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage lint`."""
    tensors = read_onnx(given.model) if given.model else None
    return lint([(name, _read(name)) for name in given.files], shell.palette, tensors)


def run_conformance(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage conformance`."""
    base = _base(given.address)
    control = wire.fetch(base, conformance.CONTROL, given.timeout)
    if not control.code:
        raise Failure(f"{given.address}: {control.body}")
    findings = [
        conformance.http_finding(item, wire.fetch(base, item.path, given.timeout), control)
        for item in conformance.http_questions(given.model)
    ]
    if given.grpc:
        with grpc.insecure_channel(given.grpc) as channel:
            for item in conformance.grpc_questions():
                answer = wire.call(channel, item, given.timeout)
                findings.append(conformance.grpc_finding(item, *answer))
    return conformance.report(findings, given.require, shell.palette)


def run_top(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage top`."""
    cluster = shell.connect(given)
    namespace = None if given.all_namespaces else given.namespace or cluster.namespace
    if given.name:
        found = [cluster.model(given.namespace or cluster.namespace, given.name)]
    else:
        found = cluster.models(namespace)
    usages: list[traffic.Usage] = []
    notes: dict[str, None] = {}
    for model in (view(item) for item in found):
        if model.selector:
            usages += _usages(cluster, model, given.timeout, notes)
    return traffic.top(usages, list(notes), shell.palette, namespaces=given.all_namespaces)


def run_completion(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage completion`."""
    del shell
    text = completion.script(given.shell)
    return Report(text, text, ok=True)


RUN: Mapping[str, Callable[[Shell, argparse.Namespace], Report]] = {
    "status": run_status,
    "why": run_why,
    "infer": run_infer,
    "lint": run_lint,
    "conformance": run_conformance,
    "top": run_top,
    "completion": run_completion,
}


def _usages(
    cluster: ClusterLike, model: ModelView, seconds: float, notes: dict[str, None]
) -> list[traffic.Usage]:
    """One model's replicas; what could not be found out becomes a note."""
    measured: dict[str, tuple[float | None, float | None]] = {}
    try:
        for item in cluster.pod_metrics(model.namespace, model.selector):
            measured[item["metadata"]["name"]] = _measured(item)
    except Failure as failure:
        notes[str(failure)] = None
    found: list[traffic.Usage] = []
    for pod in cluster.pods(model.namespace, model.selector):
        name = pod["metadata"]["name"]
        cpu, memory = measured.get(name, (None, None))
        requests = None
        if _is_running(pod):
            try:
                with _forwarded(cluster, model, pod, HTTP_PORT) as address:
                    reply = wire.fetch(f"http://{address}", "/metrics", seconds)
                    requests = traffic.read_requests(reply.body, model.served_name)
            except Failure as failure:
                notes[str(failure)] = None
        found.append(traffic.Usage(model.namespace, model.name, name, cpu, memory, requests))
    return found


def _measured(item: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Cores and bytes of all containers of a pod."""
    sums: list[float | None] = []
    for what in ("cpu", "memory"):
        values = [
            traffic.read_quantity(each["usage"].get(what, "")) for each in item["containers"]
        ]
        known = [value for value in values if value is not None]
        sums.append(sum(known) if known else None)
    return sums[0], sums[1]


@contextmanager
def _address(cluster: ClusterLike, model: ModelView, via: str, port_name: str) -> Generator[str]:
    """Where a model is asked on one of its ports."""
    if via == "service":
        yield _service_address(model, port_name)
        return
    with _forwarded(cluster, model, _ready_pod(cluster, model), port_name) as address:
        yield address


@contextmanager
def _forwarded(
    cluster: ClusterLike, model: ModelView, pod: Mapping[str, Any], port_name: str
) -> Generator[str]:
    """The local address of a pod's port; a failure on the way has the pod's words."""
    name = pod["metadata"]["name"]
    with cluster.forward(model.namespace, name, _port_of(pod, port_name)) as forward:
        try:
            yield forward.address
        except Failure as failure:
            told = f": {forward.problem}" if forward.problem else ""
            raise Failure(f"pod {name}: {failure}{told}") from failure


def _ready_pod(cluster: ClusterLike, model: ModelView) -> Mapping[str, Any]:
    pods = cluster.pods(model.namespace, model.selector) if model.selector else []
    for pod in pods:
        conditions = pod.get("status", {}).get("conditions", [])
        if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions):
            return pod
    raise Failure(
        f"{model.name}: none of its {len(pods)} pods is ready; see moorage why {model.name}"
    )


def _is_running(pod: Mapping[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") == "Running"


def _port_of(pod: Mapping[str, Any], port_name: str) -> int:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", []):
            if container["name"] == RUNTIME_CONTAINER and port.get("name") == port_name:
                return port["containerPort"]
    raise Failure(
        f"pod {pod['metadata']['name']}: its container {RUNTIME_CONTAINER} has no port {port_name}"
    )


def _service_address(model: ModelView, port_name: str) -> str:
    """The Service's address for one of its ports, as the status has it."""
    scheme = SCHEMES[port_name]
    for parts in map(urlsplit, model.urls):
        if parts.scheme == scheme and parts.netloc:
            return parts.netloc
    raise Failure(
        f"{model.name}: expected a {scheme}:// address in status.endpoints, got "
        f"{', '.join(model.urls) or 'none'}; use --via port-forward"
    )


def _base(address: str) -> str:
    """The URL of an address, without a slash at its end."""
    url = address if "://" in address else f"http://{address}"
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise WrongUsage(f"ADDRESS: expected HOST:PORT or an HTTP URL, got {address!r}")
    return url.rstrip("/")


def _read(name: str) -> str:
    """The text of a file; '-' is the standard input."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{name}: cannot be read: {error}") from error
