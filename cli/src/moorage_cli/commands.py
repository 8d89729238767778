"""The commands: each gathers its inputs and passes them to the pure module of its name."""

import argparse
import json
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import grpc

from moorage_cli.ask import wire
from moorage_cli.ask.cluster import Conflict
from moorage_cli.ask.inference import call as inference_grpc
from moorage_cli.ask.inference import request as inference
from moorage_cli.ask.onnx_file import read_onnx
from moorage_cli.ask.port_forward import PortForward
from moorage_cli.command_line import completion
from moorage_cli.edit import verbs
from moorage_cli.edit.model import Edit, Patch, Resource
from moorage_cli.edit.rollback import kept_specs, rollback
from moorage_cli.judge import conformance, traffic
from moorage_cli.judge.model_view import ModelView, runtime_view, view
from moorage_cli.judge.runtimes import models_of_runtime, runtimes
from moorage_cli.judge.status import status_of_many, status_of_one
from moorage_cli.judge.waiting import Outcome, outcome_of
from moorage_cli.judge.why import EventView, why
from moorage_cli.manifests.convert.conversion import ConversionError
from moorage_cli.manifests.convert.texts import Converted, convert_text, joined
from moorage_cli.manifests.documents import DocumentError
from moorage_cli.manifests.lint import lint
from moorage_cli.printing.failures import Failure, WrongUsage, reason_of
from moorage_cli.printing.report import ExitCode, Report
from moorage_cli.printing.sanitizing import clean, clean_document
from moorage_cli.printing.tables import Palette

__all__ = ["RUN", "Shell"]

HTTP_PORT = "http"
GRPC_PORT = "grpc"
SCHEMES = {HTTP_PORT: "http", GRPC_PORT: "grpc"}
RUNTIME_CONTAINER = "runtime"
PODS_WITH_EVENTS = 5
# A model in a rollout changes often, because the operator writes its status.
ATTEMPTS = 8


class ClusterLike(Protocol):
    """What the commands need from a cluster; implemented by `cluster.Cluster`."""

    namespace: str

    def models(self, namespace: str | None) -> list[dict[str, Any]]: ...
    def model(self, namespace: str, name: str) -> dict[str, Any]: ...
    def runtimes(self) -> list[dict[str, Any]]: ...
    def runtime(self, name: str) -> dict[str, Any]: ...
    def changes(self, namespace: str | None, name: str) -> Iterator[dict[str, Any]]: ...
    def events(self, namespace: str, names: list[str]) -> list[EventView]: ...
    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]: ...
    def pod_metrics(self, namespace: str, selector: str) -> list[dict[str, Any]]: ...
    def follow(self, namespace: str, name: str, seconds: float) -> Iterator[dict[str, Any]]: ...
    def patch(self, namespace: str, name: str, patch: Patch) -> dict[str, Any]: ...
    def revisions(self, namespace: str, selector: str) -> list[dict[str, Any]]: ...
    def forward(self, namespace: str, pod: str, port: int) -> PortForward: ...


@dataclass(frozen=True, slots=True)
class Shell:
    """The surroundings of a command: how to connect, colour, and show the rows of a watch."""

    connect: Callable[[argparse.Namespace], ClusterLike]
    palette: Palette
    show: Callable[[Report], None]


def run_status(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage status`."""
    cluster = shell.connect(given)
    namespace = None if given.all_namespaces else given.namespace or cluster.namespace
    if given.name and namespace is None:
        raise WrongUsage("NAME cannot be combined with --all-namespaces: use --namespace NS")
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
    """Show each change until interrupted, without rows that repeat the previous one."""
    shown: dict[tuple[str, str], object] = {}
    for resource in cluster.changes(namespace, given.name):
        model = view(resource)
        report = _many(shell, [model], given)
        key = (model.namespace, model.name)
        if shown.get(key) != report.document:
            shell.show(report)
        shown[key] = report.document
    raise Failure("the watch ended unexpectedly: run the command again")


def run_why(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage why`."""
    cluster = shell.connect(given)
    model = view(cluster.model(given.namespace or cluster.namespace, given.name))
    return _explained(shell, cluster, model)


def run_runtimes(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage runtimes`."""
    cluster = shell.connect(given)
    if not given.runtime:
        return runtimes([runtime_view(item) for item in cluster.runtimes()], shell.palette)
    found = runtime_view(cluster.runtime(given.runtime))
    models = [view(item) for item in cluster.models(given.namespace or None)]
    return models_of_runtime(found, models, shell.palette)


def run_wait(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage wait`."""
    cluster = shell.connect(given)
    namespace, model = given.namespace or cluster.namespace, None
    for body in cluster.follow(namespace, given.name, given.timeout):
        model = view(body)
        outcome = outcome_of(model)
        if outcome is Outcome.SERVES:
            return _explained(shell, cluster, model)
        if outcome is Outcome.FAILED:
            report = _explained(shell, cluster, model)
            return replace(report, ok=False, failed=ExitCode.ROLLOUT_FAILED)
    if model is None:
        raise Failure(f"{given.name}: the watch ended unexpectedly: run the command again")
    report = _explained(shell, cluster, model)
    late = f"{given.name}: not up to date and ready within {given.timeout:g} seconds\n"
    return replace(report, text=late + report.text, ok=False)


def run_promote(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage promote`."""
    return _edited(shell, given, verbs.promote, given.revision)


def run_abort(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage abort`."""
    return _edited(shell, given, verbs.abort, given.revision)


def run_restart(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage restart`."""
    now = datetime.now(UTC)
    return _edited(shell, given, lambda model, _: verbs.restart(model, now))


def run_rollback(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage rollback`."""
    cluster = shell.connect(given)
    namespace = given.namespace or cluster.namespace

    def decide(model: Resource, to: str) -> Edit:
        selector = model.status.get("selector")
        kept = cluster.revisions(namespace, str(selector)) if selector else []
        return rollback(model, kept_specs(kept), to)

    return _edited(shell, given, decide, given.to, dry_run=given.dry_run)


def run_pause(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage pause`."""
    return _edited(shell, given, lambda model, _: verbs.pause(model))


def run_resume(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage resume`."""
    return _edited(shell, given, lambda model, _: verbs.resume(model))


def _edited(
    shell: Shell,
    given: argparse.Namespace,
    decide: Callable[[Resource, str], Edit],
    revision: str = "",
    *,
    dry_run: bool = False,
) -> Report:
    """Read a model, decide its edit and send it; again if somebody changes it meanwhile.

    A repetition names the same revision, so that it never acts on one that the user did not see.
    """
    cluster = shell.connect(given)
    namespace, name = given.namespace or cluster.namespace, given.name
    for left in reversed(range(ATTEMPTS)):
        edit = decide(Resource(cluster.model(namespace, name)), revision)
        document = {"namespace": namespace, "name": name, "patch": edit.patch, "done": edit.done}
        if dry_run:
            text = json.dumps(edit.patch or [], indent=2, ensure_ascii=False)
            return Report(f"{clean_document(text)}\n", {**document, "dryRun": True}, ok=True)
        revision = edit.pinned
        try:
            if edit.patch is not None:
                cluster.patch(namespace, name, edit.patch)
        except Conflict:
            if not left:
                raise
            continue
        sentence = f"{clean(name)}: {clean(edit.done)}\n"
        return Report(sentence, document, ok=True, names=(name,))
    raise AssertionError("unreachable")


def _explained(shell: Shell, cluster: ClusterLike, model: ModelView) -> Report:
    """The report of `why`."""
    pods = [replica.pod for replica in model.replicas if replica.reason][:PODS_WITH_EVENTS]
    events = cluster.events(model.namespace, list(dict.fromkeys([model.name, *pods])))
    return why(model, events, datetime.now(UTC), shell.palette)


def run_infer(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage infer`."""
    document = inference.read_document(_read(given.file), given.file)
    cluster = shell.connect(given)
    model = view(cluster.model(given.namespace or cluster.namespace, given.name))
    protocol = given.protocol or model.protocol
    without_tensors = {protocol, model.declared_protocol} & {"OpenAI", "None"}
    if without_tensors and not given.protocol:
        raise Failure(
            f"{model.name}: infer sends tensors, which protocol {min(without_tensors)} does not "
            f"have: send JSON to {model.url}"
        )
    if protocol not in set(inference.InferenceProtocol):
        raise Failure(
            f"{model.name}: its protocol is not known yet: run moorage why {model.name}, or set "
            "--protocol"
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


def run_convert(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage convert`: no file is written unless all of them can be converted."""
    del shell
    if given.in_place and "-" in given.files:
        raise WrongUsage("--in-place cannot be combined with '-', which is standard input")
    texts = {name: _read(name) for name in given.files}
    made = {name: _converted(name, text) for name, text in texts.items()}
    notes = tuple(f"{name}: {note}" for name, each in made.items() for note in each.notes)
    if not given.in_place:
        whole = joined([each.text for each in made.values()])
        return Report(whole, whole, ok=True, notes=notes)
    changed = [name for name, each in made.items() if each.text != texts[name]]
    for name in changed:
        _write(name, made[name].text)
    lines = [f"{name}: {'converted' if name in changed else 'unchanged'}\n" for name in made]
    return Report("".join(lines), {"converted": changed}, ok=True, notes=notes)


def _converted(name: str, text: str) -> Converted:
    try:
        return convert_text(text)
    except DocumentError as error:
        raise Failure(f"{name}: is not valid YAML: {error}") from error
    except ConversionError as error:
        raise Failure(f"{name}: {error}") from error


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
    "runtimes": run_runtimes,
    "wait": run_wait,
    "promote": run_promote,
    "abort": run_abort,
    "restart": run_restart,
    "rollback": run_rollback,
    "pause": run_pause,
    "resume": run_resume,
    "infer": run_infer,
    "lint": run_lint,
    "convert": run_convert,
    "conformance": run_conformance,
    "top": run_top,
    "completion": run_completion,
}


def _usages(
    cluster: ClusterLike, model: ModelView, seconds: float, notes: dict[str, None]
) -> list[traffic.Usage]:
    """One model's replicas; failures become notes."""
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
    """The address of one port of a model."""
    if via == "service":
        yield _service_address(model, port_name)
        return
    with _forwarded(cluster, model, _ready_pod(cluster, model), port_name) as address:
        yield address


@contextmanager
def _forwarded(
    cluster: ClusterLike, model: ModelView, pod: Mapping[str, Any], port_name: str
) -> Generator[str]:
    """The local address of a pod's port; a failure includes the pod's own message."""
    name = pod["metadata"]["name"]
    with cluster.forward(model.namespace, name, _port_of(pod, port_name)) as forward:
        try:
            yield forward.address
        except Failure as failure:
            problem = f": {forward.problem}" if forward.problem else ""
            raise Failure(f"pod {name}: {failure}{problem}") from failure


def _ready_pod(cluster: ClusterLike, model: ModelView) -> Mapping[str, Any]:
    pods = cluster.pods(model.namespace, model.selector) if model.selector else []
    for pod in pods:
        conditions = pod.get("status", {}).get("conditions", [])
        if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions):
            return pod
    raise Failure(f"{model.name}: none of {len(pods)} pods is ready: run moorage why {model.name}")


def _is_running(pod: Mapping[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") == "Running"


def _port_of(pod: Mapping[str, Any], port_name: str) -> int:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", []):
            if container["name"] == RUNTIME_CONTAINER and port.get("name") == port_name:
                return port["containerPort"]
    raise Failure(
        f"pod {pod['metadata']['name']}: container {RUNTIME_CONTAINER} has no port {port_name}"
    )


def _service_address(model: ModelView, port_name: str) -> str:
    """The Service's address for one of its ports, from the status."""
    scheme = SCHEMES[port_name]
    for parts in map(urlsplit, model.urls):
        if parts.scheme == scheme and parts.netloc:
            return parts.netloc
    raise Failure(
        f"{model.name}: status.endpoints has no {scheme}:// address, only "
        f"{', '.join(model.urls) or 'an empty list'}: use --via port-forward"
    )


def _base(address: str) -> str:
    """The URL of an address, without a trailing slash."""
    url = address if "://" in address else f"http://{address}"
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise WrongUsage(f"ADDRESS: {address!r} is invalid: must be HOST:PORT or an HTTP URL")
    return url.rstrip("/")


def _read(name: str) -> str:
    """The text of a file; '-' is standard input."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{name} cannot be read: {reason_of(error)}") from error


def _write(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{name} cannot be written: {reason_of(error)}") from error
