"""`moorage run`: a file or folder served on this machine.

PATH --> model_files --> the program moorage-runtime --> its metadata --> sample --> curl command
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from moorage_cli.ask import local_server, wire
from moorage_cli.ask.inference.sample import describe, sample_request, sample_tensors
from moorage_cli.ask.standard_streams import complain
from moorage_cli.commands.model_sources import check_trust, find_models
from moorage_cli.commands.samples import sample_command
from moorage_cli.commands.shell import Shell
from moorage_cli.manifests.model_files import EXTRAS, FoundModel
from moorage_cli.printing.failures import Failure, WrongUsage
from moorage_cli.printing.report import Report
from moorage_cli.printing.sanitizing import clean, clean_document

__all__ = ["run_run"]

HOST = "127.0.0.1"
ASK_SECONDS = 5.0
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _State:
    """What the server says about a model."""

    name: str
    ready: bool
    problem: str


def run_run(shell: Shell, given: argparse.Namespace) -> Report:
    """`moorage run`: returns when the user ends it."""
    if "://" in given.path:
        raise WrongUsage(
            f"PATH: {given.path!r} is invalid: must be a file or folder of this machine; moorage "
            "deploy serves a URI"
        )
    if given.http_port == given.grpc_port != 0:
        raise WrongUsage(
            f"--grpc-port: {given.grpc_port} is invalid: must differ from --http-port"
        )
    path = Path(given.path)
    found = find_models(path, given.name)
    _check(found, given)
    arguments = [
        f"--model-repository={path}",
        f"--host={HOST}",
        f"--http-port={given.http_port}",
        f"--grpc-port={given.grpc_port}",
        "--log-format=text",
        f"--allow-pickle={'true' if given.trusted else 'false'}",
    ]
    if len(found) == 1:
        arguments.append(f"--model-name={found[0].name}")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="moorage-run-") as folder,
            local_server.serving(arguments, _show_log) as server,
        ):
            ports = _opened(server)
            states = [_loaded(server, ports[0], each.name) for each in found]
            _refuse_unless_any(states)
            text = "".join(_presented(each, ports[0], Path(folder)) for each in states)
            end = f"gRPC: {HOST}:{ports[1]}\nPress Ctrl-C to end the server.\n"
            shell.show(Report(text + end, {}, ok=True))
            server.wait()
    except KeyboardInterrupt:
        return Report("", {}, ok=True)
    raise AssertionError("unreachable")


def _check(found: Sequence[FoundModel], given: argparse.Namespace) -> None:
    """Refuse what the server would refuse, in the words of this command.

    Raises:
        Failure: A model is a pickle that is not trusted, or the server is not installed.
    """
    for each in found:
        check_trust(each.file, "with your permissions", trusted=given.trusted)
    if not local_server.program():
        extras = sorted({EXTRAS[each.format] for each in found if each.format in EXTRAS})
        package = f"'./runtime[{','.join(extras)}]'" if extras else "./runtime"
        raise Failure(
            f"the program {local_server.PROGRAM} is not installed: run pip install {package} in "
            "the repository"
        )


def _show_log(line: str) -> None:
    complain(f"{clean(line)}\n")


def _opened(server: local_server.LocalServer) -> tuple[int, int]:
    """The ports of the server, as soon as both are open.

    Raises:
        Failure: The server has ended, for example because a port is in use.
    """
    while (ports := server.ports) is None:
        try:
            server.check()
        except Failure as failure:
            if "_port " in str(failure):
                fix = "choose another one with --http-port or --grpc-port; 0 is any free port"
                raise Failure(f"{failure}; {fix}") from failure
            raise
        time.sleep(POLL_SECONDS)
    return ports


def _loaded(server: local_server.LocalServer, port: int, name: str) -> _State:
    """The state of a model once it no longer loads."""
    while True:
        server.check()
        answer = _asked(port, f"/v2/models/{quote(name, safe='')}/ready")
        if answer.get("ready") is True:
            return _State(name, ready=True, problem="")
        problem = answer.get("error")
        if isinstance(problem, str):
            if "--allow-pickle" in problem:
                problem += "; for moorage run, add --trusted"
            return _State(name, ready=False, problem=problem)
        time.sleep(POLL_SECONDS)


def _asked(port: int, path: str) -> Mapping[str, Any]:
    reply = wire.fetch(f"http://{HOST}:{port}", path, ASK_SECONDS)
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", document) if isinstance(document, dict) else {}


def _refuse_unless_any(states: Sequence[_State]) -> None:
    """Raise the reasons if no model is ready.

    Raises:
        Failure: Every model failed.
    """
    if not any(each.ready for each in states):
        raise Failure("; ".join(f"{each.name}: {each.problem}" for each in states))


def _presented(state: _State, port: int, folder: Path) -> str:
    if not state.ready:
        return f"{clean(state.name)} is not served: {clean(state.problem)}\n\n"
    path = f"/v2/models/{quote(state.name, safe='')}"
    metadata = _asked(port, path)
    head = f"{clean(state.name)} is ready\n"
    return head + _request_lines(metadata, f"http://{HOST}:{port}{path}/infer", folder)


def _request_lines(metadata: Mapping[str, Any], url: str, folder: Path) -> str:
    """The tensors of a model and a command that sends it a sample request.

    Args:
        metadata: Document with inputs and outputs.
        url: Where inference requests go.
        folder: Where the body is written if it is long.
    """
    inputs, outputs = (sample_tensors(metadata.get(each)) for each in ("inputs", "outputs"))
    lines = [f"  inputs:  {clean(describe(inputs))}", f"  outputs: {clean(describe(outputs))}"]
    sample = sample_request(inputs) if inputs else None
    if sample is None:
        return "\n".join([*lines, f"  url:     {url}", "", ""])
    command = sample_command(url, clean_document(sample), folder)
    return "\n".join([*lines, "Send it a sample request:", f"  {command}", "", ""])
