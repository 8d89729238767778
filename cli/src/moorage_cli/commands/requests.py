"""`moorage infer` and `conformance`: requests to model servers."""

import argparse
from collections.abc import Mapping
from typing import Any

import grpc

from moorage_cli.ask import wire
from moorage_cli.ask.inference import call as inference_grpc
from moorage_cli.ask.inference import request as inference
from moorage_cli.commands.access import access_of
from moorage_cli.commands.pods import GRPC_PORT, HTTP_PORT, address_of
from moorage_cli.commands.server_addresses import checked_host, checked_url
from moorage_cli.commands.shell import Shell
from moorage_cli.commands.texts import named_file, read_text
from moorage_cli.judge import conformance
from moorage_cli.judge.model_view import ModelView, view
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.report import Report

__all__ = ["protocol_of", "request_of", "run_conformance", "run_infer"]


def run_infer(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage infer`."""
    document = request_of(given.file, "--file")
    cluster = shell.connect(given)
    model = view(cluster.model(given.namespace or cluster.namespace, given.name))
    asked = protocol_of(model, given), model.served_name, given.model_version, document
    access = access_of(cluster, model, given)
    if given.transport == "GRPC":
        call = inference_grpc.make_call(*asked)
        with address_of(cluster, model, given.via, GRPC_PORT) as address:
            return inference_grpc.answered_call(
                call, wire.infer(address, call, given.timeout, access)
            )
    request = inference.make_request(*asked)
    with address_of(cluster, model, given.via, HTTP_PORT) as address:
        code, body = wire.post(address, request, given.timeout, access)
    return inference.answered(request, code, body)


def request_of(name: str, argument: str) -> Mapping[str, Any]:
    """The request of a file.

    Raises:
        Failure: The file cannot be read, or has no JSON object.
    """
    return inference.read_document(read_text(name, argument), named_file(name, argument))


def protocol_of(model: ModelView, given: argparse.Namespace) -> inference.InferenceProtocol:
    """The protocol of requests to a model: that of the command line, or of its status.

    Raises:
        Failure: It is not known, or has no tensors.
    """
    protocol = given.protocol or model.protocol
    without_tensors = {protocol, model.declared_protocol} & {"OpenAI", "None"}
    if without_tensors and not given.protocol:
        raise Failure(
            f"{model.name}: a request has tensors, which protocol {min(without_tensors)} does not "
            f"have: send JSON to {model.url}"
        )
    if protocol not in set(inference.InferenceProtocol):
        raise Failure(
            f"{model.name}: its protocol is not known yet: run moorage why {model.name}, or set "
            "--protocol"
        )
    return inference.InferenceProtocol(protocol)


def run_conformance(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage conformance`."""
    base = _base(given.address)
    grpc_address = checked_host(given.grpc, "--grpc") if given.grpc else ""
    control = wire.fetch(base, conformance.CONTROL, given.timeout)
    if not control.code:
        raise Failure(f"{given.address}: {control.body}")
    findings = [
        conformance.http_finding(item, wire.fetch(base, item.path, given.timeout), control)
        for item in conformance.http_questions(given.model)
    ]
    if grpc_address:
        with grpc.insecure_channel(grpc_address) as channel:
            for item in conformance.grpc_questions():
                answer = wire.call(channel, item, given.timeout)
                findings.append(conformance.grpc_finding(item, *answer))
    return conformance.report(findings, given.require, shell.palette)


def _base(address: str) -> str:
    """The URL of an address, without a trailing slash."""
    url = address if "://" in address else f"http://{address}"
    allowed = "HOST:PORT or an HTTP URL"
    if checked_url(url, "ADDRESS", allowed).scheme not in {"http", "https"}:
        raise WrongUsage(f"ADDRESS: {address!r} is invalid: must be {allowed}")
    return url.rstrip("/")
