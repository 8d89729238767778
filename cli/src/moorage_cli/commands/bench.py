"""`moorage bench`: a fixed rate of requests to a model of the cluster, or to a URL.

target, document --> one request that must succeed --> ask.load --> samples --> judge.bench
"""

import argparse
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote

from moorage_cli.ask import load, wire
from moorage_cli.ask.access import Access
from moorage_cli.ask.inference import call as inference_grpc
from moorage_cli.ask.inference import request as inference
from moorage_cli.ask.inference.sample import SAMPLE_LIMIT_VALUES, sample_request, sample_tensors
from moorage_cli.commands.access import access_of, access_of_files
from moorage_cli.commands.pods import GRPC_PORT, HTTP_PORT, address_of
from moorage_cli.commands.requests import protocol_of, request_of
from moorage_cli.commands.server_addresses import checked_url
from moorage_cli.commands.shell import Shell
from moorage_cli.judge.bench import Load, bench
from moorage_cli.judge.model_view import view
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.report import Report
from moorage_cli.printing.tables import shorten

__all__ = ["run_bench"]

REQUEST_LIMIT = 5_000_000
CONNECTIONS = 256
# Each connection through a port-forward is one to the API server.
FORWARDED_CONNECTIONS = 32
FORWARD_NOTE = (
    "the port-forward through the API server adds latency and limits the rate: to measure the "
    "server alone, run moorage bench in the cluster with --via service or the URL of the model"
)
# The path of a model in a URL, before and after its name.
MODELS_PATH = "/v2/models/"


@dataclass(frozen=True, slots=True)
class _Target:
    """Where requests go, and what they ask."""

    named: str
    address: str
    access: Access
    transport: str
    protocol: inference.InferenceProtocol
    model: str
    inputs: object = None
    notes: tuple[str, ...] = ()
    connections: int = CONNECTIONS


def run_bench(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage bench`."""
    if given.rate * given.duration > REQUEST_LIMIT:
        raise WrongUsage(
            f"--rate {given.rate:g} for --duration {given.duration:g} is too much: must be at "
            f"most {REQUEST_LIMIT} requests"
        )
    document = request_of(given.data, "--data") if given.data else None
    found = _of_url(given) if "://" in given.target else _of_model(shell, given)
    with found as target:
        return _measured(shell, target, given, document)


@contextmanager
def _of_model(shell: Shell, given: argparse.Namespace) -> Generator[_Target]:
    cluster = shell.connect(given)
    model = view(body := cluster.model(given.namespace or cluster.namespace, given.target))
    protocol, access = protocol_of(model, given), access_of(cluster, model, given)
    transport = given.transport or "HTTP"
    port = GRPC_PORT if transport == "GRPC" else HTTP_PORT
    is_forwarded = given.via == "port-forward"
    with address_of(cluster, model, given.via, port) as address:
        yield _Target(
            named=f"{model.name}, {protocol} over {transport}",
            address=address,
            access=access,
            transport=transport,
            protocol=protocol,
            model=given.model or model.served_name,
            inputs=body.get("status", {}).get("model", {}).get("inputs"),
            notes=(FORWARD_NOTE,) if is_forwarded else (),
            connections=FORWARDED_CONNECTIONS if is_forwarded else CONNECTIONS,
        )


@contextmanager
def _of_url(given: argparse.Namespace) -> Generator[_Target]:
    transports = {"http": "HTTP", "https": "HTTP", "grpc": "GRPC", "grpcs": "GRPC"}
    schemes = ", ".join(f"{each}://" for each in transports)
    allowed = f"the name of a model, or a URL with a host and one of {schemes}"
    parts = checked_url(given.target, "NAME|URL", allowed)
    if parts.scheme not in transports:
        raise WrongUsage(f"NAME|URL: {given.target!r} is invalid: must be {allowed}")
    transport = transports[parts.scheme]
    if given.transport not in {"", transport}:
        raise WrongUsage(f"--transport {given.transport}: {given.target} is for {transport}")
    before, _, after = parts.path.partition(MODELS_PATH)
    model = given.model or unquote(after.partition("/")[0])
    if not model:
        raise WrongUsage(f"--model: is required with a URL without {MODELS_PATH}NAME")
    protocol = inference.InferenceProtocol(
        given.protocol or inference.InferenceProtocol.OPEN_INFERENCE
    )
    access = access_of_files(given, tls=parts.scheme in {"https", "grpcs"})
    address = f"{parts.netloc}{before.rstrip('/')}"
    if transport == "GRPC" and parts.port is None:
        raise WrongUsage(f"NAME|URL: {given.target} has no port")
    target = _Target(
        f"{model} at {given.target}, {protocol} over {transport}",
        address, access, transport, protocol, model,
    )  # fmt: skip
    is_known = protocol is inference.InferenceProtocol.OPEN_INFERENCE and not given.data
    yield _with_inputs(target, given.timeout) if is_known else target


def _with_inputs(target: _Target, seconds: float) -> _Target:
    """The target with the tensors that its server reports.

    Raises:
        Failure: The server does not report them.
    """
    if target.transport == "GRPC":
        call = inference_grpc.make_metadata_call(target.model)
        answer = wire.infer(target.address, call, seconds, target.access)
        found = inference_grpc.metadata_of(answer)
    else:
        path = f"{MODELS_PATH}{quote(target.model, safe='')}"
        base = f"{target.access.scheme}://{target.address}"
        reply = wire.fetch(base, path, seconds, target.access)
        if reply.code != 200:
            said = reply.body if not reply.code else f"HTTP {reply.code} from {path}"
            raise Failure(f"{target.named}: {shorten(said, 300)}")
        found = _object(reply.body)
    return _Target(
        target.named, target.address, target.access, target.transport, target.protocol,
        target.model, found.get("inputs"),
    )  # fmt: skip


def _object(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", document) if isinstance(document, dict) else {}


def _measured(
    shell: Shell,
    target: _Target,
    given: argparse.Namespace,
    document: Mapping[str, Any] | None,
) -> Report:
    """Send one request that must succeed, then all others; without a document, a sample."""
    document = _sample(target) if document is None else document
    asked = target.protocol, target.model, given.model_version, document
    if target.transport == "GRPC":
        call = inference_grpc.make_call(*asked)
        answer = wire.infer(target.address, call, given.timeout, target.access)
        first = inference_grpc.answered_call(call, answer)
        sender = load.grpc_sender(target.address, call, target.access, given.timeout)
    else:
        request = inference.make_request(*asked)
        code, body = wire.post(target.address, request, given.timeout, target.access)
        first = inference.answered(request, code, body)
        sender = load.http_sender(
            target.address,
            request,
            json.dumps(dict(request.body)).encode(),
            target.access,
            given.timeout,
            target.connections,
        )
    if not first.ok:
        raise Failure(f"the first request failed, so none is measured: {shorten(first.text, 500)}")
    count = f"{given.rate:g} requests/s for {given.duration:g} s"
    shell.tell(f"{target.named}: {count}; Ctrl-C ends it")
    samples, interrupted = load.send_at_rate(sender, given.rate, given.duration)
    done = Load(target.named, given.rate, given.duration, interrupted)
    return bench(done, samples, target.notes, shell.palette)


def _sample(target: _Target) -> Mapping[str, Any]:
    """A request that is made from the metadata.

    Raises:
        Failure: The tensors are not known, too large, or have no form in JSON.
    """
    tensors = sample_tensors(target.inputs)
    if not tensors:
        raise Failure(f"{target.named}: the tensors of the model are not known: set --data")
    sample = sample_request(tensors)
    if sample is None:
        raise Failure(
            f"{target.named}: the inputs have more than {SAMPLE_LIMIT_VALUES} values, or the "
            "datatype BF16, which JSON lacks: set --data to a request of your own"
        )
    return sample
