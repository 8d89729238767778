"""`moorage top`: the usage and the requests of each replica.

The metrics of a server are read through a port-forward to each replica, which takes several round
trips. So several models are asked at once.
"""

import argparse
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any

from moorage_cli.ask import wire
from moorage_cli.ask.access import Access
from moorage_cli.commands.access import access_of
from moorage_cli.commands.pods import HTTP_PORT, RUNTIME_CONTAINER, forwarded
from moorage_cli.commands.reports import namespace_of
from moorage_cli.commands.shell import ClusterLike, Shell
from moorage_cli.judge import traffic
from moorage_cli.judge.model_view import ModelView, view
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.report import Report

__all__ = ["run_top"]

AT_ONCE = 16
"""How many models are asked at once: with 2000 and a round trip of 50 ms, about two minutes."""


def run_top(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage top`."""
    cluster = shell.connect(given)
    namespace = namespace_of(cluster, given)
    if given.name:
        found = [cluster.model(namespace or "", given.name)]
    else:
        found = cluster.models(namespace)
    models = [model for model in map(view, found) if model.selector]
    usages: list[traffic.Usage] = []
    notes: dict[str, None] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for replicas, failures in pool.map(partial(_usages, cluster, given), models):
            usages += replicas
            notes |= failures
    return traffic.top(usages, list(notes), shell.palette, namespaces=given.all_namespaces)


def _usages(
    cluster: ClusterLike, given: argparse.Namespace, model: ModelView
) -> tuple[list[traffic.Usage], dict[str, None]]:
    """One model's replicas, and the failures to read their values, each one once."""
    notes: dict[str, None] = {}
    measured: dict[str, tuple[float | None, float | None]] = {}
    try:
        for item in cluster.pod_metrics(model.namespace, model.selector):
            measured[item["metadata"]["name"]] = _measured(item)
    except Failure as failure:
        notes[str(failure)] = None
    access = None
    try:
        access = access_of(cluster, model, given)
    except Failure as failure:
        notes[str(failure)] = None
    found: list[traffic.Usage] = []
    for pod in cluster.pods(model.namespace, model.selector):
        name = pod["metadata"]["name"]
        cpu, memory = measured.get(name, (None, None))
        requests, reason = None, traffic.why_idle(pod, RUNTIME_CONTAINER)
        if access is not None and not reason:
            try:
                with forwarded(cluster, model, pod, HTTP_PORT) as address:
                    exposition = _metrics(address, given.timeout, access)
                requests = traffic.read_requests(exposition, model.served_name)
            except Failure as failure:
                notes[str(failure)] = None
        found.append(
            traffic.Usage(model.namespace, model.name, name, cpu, memory, requests, reason)
        )
    return found, notes


def _metrics(address: str, seconds: float, access: Access) -> str:
    """The metrics of a server; those of other servers may be elsewhere.

    Raises:
        Failure: It does not answer, or refuses the token.
    """
    reply = wire.fetch(f"{access.scheme}://{address}", "/metrics", seconds, access)
    if reply.code == 0:
        raise Failure(reply.body)
    if reply.code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise Failure(f"HTTP {reply.code} from /metrics: set --token-file")
    return reply.body


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
