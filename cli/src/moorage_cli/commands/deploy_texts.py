"""What `moorage deploy` prints at its end, and when it is interrupted."""

import argparse
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from moorage_cli.ask.inference import request as inference
from moorage_cli.ask.inference.sample import describe, sample_request, sample_tensors
from moorage_cli.commands.samples import sample_command
from moorage_cli.judge.model_view import ModelView
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean, clean_document

__all__ = ["goes_on", "served"]


def goes_on(name: str, given: argparse.Namespace) -> str:
    """What happens after an interrupt, and how to see it."""
    namespace = f" --namespace {shlex.quote(given.namespace)}" if given.namespace else ""
    command = f"moorage rollout {name} --watch{namespace}{_cluster_options(given)}"
    return clean(f"{name}: the rollout continues in the cluster: to follow it, run {command}")


def served(model: ModelView, body: Mapping[str, Any], given: argparse.Namespace) -> Report:
    """The addresses of a model that serves, and a request that it answers."""
    status = body.get("status", {})
    inputs, outputs = (
        sample_tensors(status.get("model", {}).get(each)) for each in ("inputs", "outputs")
    )
    document = {
        "namespace": model.namespace,
        "name": model.name,
        "uri": body["spec"]["model"].get("uri", ""),
        "revision": status.get("revisions", {}).get("current", ""),
        "urls": list(model.urls),
    }
    lines = [
        f"{clean(model.name)} serves",
        f"  inputs:  {clean(describe(inputs))}",
        f"  outputs: {clean(describe(outputs))}",
        f"  in the cluster: {clean(', '.join(model.urls))}",
    ]
    http = next((parts for parts in map(urlsplit, model.urls) if parts.scheme == "http"), None)
    if http is not None and http.hostname:
        lines += _commands(model, http.hostname, http.port or 80, inputs, given)
    return Report("\n".join([*lines, ""]), document, ok=True, names=(model.name,))


def _cluster_options(given: argparse.Namespace) -> str:
    """The options that select the cluster, as they were given."""
    options = f" --context {shlex.quote(given.context)}" if given.context else ""
    return options + (f" --kubeconfig {shlex.quote(given.kubeconfig)}" if given.kubeconfig else "")


def _commands(
    model: ModelView, host: str, port: int, inputs: list[Any], given: argparse.Namespace
) -> list[str]:
    """The commands that forward a port and send a sample request through it."""
    options = _cluster_options(given)
    service = shlex.quote(f"service/{host.partition('.')[0]}")
    ports = f"{given.local_port}:{port}"
    lines = [
        "From this machine:",
        f"  kubectl{options} -n {shlex.quote(model.namespace)} port-forward {service} {ports}",
    ]
    if not inputs or model.protocol not in set(inference.InferenceProtocol):
        return lines
    sample = sample_request(inputs)
    if sample is None:
        return lines
    protocol = inference.InferenceProtocol(model.protocol)
    try:
        made = inference.make_request(protocol, model.served_name, "", clean_document(sample))
    except Failure:
        return lines  # the protocol has no JSON for one of the datatypes
    url = f"http://localhost:{given.local_port}{made.path}"
    return [*lines, f"  {sample_command(url, made.body)}"]
