"""The command line: every command with its arguments and help.

`--help`, the completion and docs/reference/cli.md are generated from `COMMANDS`.
"""

import argparse
import difflib
import importlib.metadata
import textwrap
from collections.abc import Sequence
from typing import Any

from moorage_cli.command_line.argument_types import count, namespace, object_name, port
from moorage_cli.command_line.declared import (
    ACCESS,
    ALL,
    CLUSTER,
    MAYBE_NAME,
    NAME,
    NAMES,
    NAMESPACE,
    Argument,
    Command,
    output,
    timeout,
)
from moorage_cli.command_line.offline import COMPLETION, MANIFESTS
from moorage_cli.command_line.requests import PROTOCOLS, REQUESTS
from moorage_cli.command_line.rollouts import ROLLOUTS
from moorage_cli.command_line.starting import STARTING

__all__ = ["COMMANDS", "Argument", "Command", "check_first_word", "parser"]

COMMANDS: tuple[Command, ...] = (
    *STARTING,
    Command(
        "status",
        "show which models serve and the progress of the others",
        "Prints one row per model. With NAME, also prints its conditions and replicas. PROGRESS "
        "counts the steps to Ready and names the next one: 2/4 ProtocolMatched. The exit status "
        "is 0 if every model shown is ready and its status is up to date, otherwise 1. It is also "
        "1 if the namespace does not exist, which requires the right to get the namespace. With "
        "--watch, prints a row for each change, and the reason Deleted for a model that was "
        "deleted, until Ctrl-C.",
        (
            MAYBE_NAME,
            NAMESPACE,
            ALL,
            Argument("-w", "--watch", action="store_true", help="keep printing changes"),
            output("table", "json", "name"),
            *CLUSTER,
        ),
        ("moorage status", "moorage status iris -n models", "moorage status -A -o json"),
    ),
    Command(
        "why",
        "explain why models do not serve, and how to fix it",
        "Prints the root cause with its log lines, then the fix, then further independent causes "
        "and recent events. With several names, explains each model in turn, and -o json prints "
        "a list. The exit status is 0 if all of the models are ready, otherwise 1.",
        (NAMES, NAMESPACE, output("text", "json"), *CLUSTER),
        ("moorage why iris", "moorage why iris rose"),
    ),
    Command(
        "runtimes",
        "show the InferenceRuntimes and which models lag behind",
        "Prints one row per InferenceRuntime. OUTDATED counts the models that would get other "
        "fields from the runtime than they run with. With NAME, also prints the models that use "
        "the runtime and why each lags behind. The exit status is 0 if every runtime shown is "
        "accepted, otherwise 1.",
        (
            Argument(
                "runtime",
                metavar="NAME",
                nargs="?",
                type=object_name,
                default="",
                help="name of an InferenceRuntime",
            ),
            Argument(
                "-n",
                "--namespace",
                metavar="NS",
                type=namespace,
                default="",
                help="with NAME, models of this namespace; defaults to all namespaces",
            ),
            output("table", "json", "name"),
            *CLUSTER,
        ),
        ("moorage runtimes", "moorage runtimes triton"),
    ),
    *ROLLOUTS,
    Command(
        "logs",
        "print the logs of all replicas",
        "Prints the log of each pod of the current revision, with the name of the pod before each "
        "line. If that revision has no pods, those of the others. With --follow, the command ends "
        "with the containers; pods that start later are not included. The exit status is 1 if no "
        "pod has a log.",
        (
            NAME,
            Argument("-f", "--follow", action="store_true", help="keep printing new lines"),
            Argument(
                "--previous",
                action="store_true",
                help="the log of the previous container, before its restart",
            ),
            Argument(
                "--tail", metavar="N", type=count, default=200, help="last lines of each pod"
            ),
            Argument(
                "--container",
                metavar="NAME",
                default="runtime",
                help="container, such as fetch for the download of the model",
            ),
            Argument("--revision", metavar="REVISION", default="", help="pods of this revision"),
            NAMESPACE,
            *CLUSTER,
        ),
        ("moorage logs iris -f", "moorage logs iris --container fetch"),
    ),
    Command(
        "events",
        "print the events of a model and its pods",
        "Prints one row per event, the latest last.",
        (NAME, NAMESPACE, output("table", "json"), *CLUSTER),
        ("moorage events iris",),
    ),
    Command(
        "delete",
        "delete models",
        "Deletes each InferenceModel, and with it its objects, such as the ConfigMaps that "
        "moorage deploy has written. Claims and the files in them stay. Asks for each model on a "
        "terminal; without one, --yes is required. A model that cannot be deleted does not keep "
        "the others from it. With several names, -o json prints a list. The exit status is 0 if "
        "all of the models are deleted, and 1 if one is not, for example because you do not "
        "agree.",
        (
            NAMES,
            Argument("--yes", action="store_true", help="do not ask"),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        ("moorage delete iris", "moorage delete iris rose --yes"),
    ),
    *REQUESTS,
    *MANIFESTS,
    Command(
        "conformance",
        "show which protocols a server supports",
        "ADDRESS is HOST:PORT of a server's HTTP port, or its URL. Sends only read-only requests. "
        "The exit status is 0 if the server supports every tested part of a protocol over one "
        "transport, otherwise 1.",
        (
            Argument("address", metavar="ADDRESS", help="HTTP address of the server"),
            Argument(
                "--grpc",
                metavar="ADDRESS",
                default="",
                help="HOST:PORT of its gRPC port, to test it too",
            ),
            Argument(
                "--model", metavar="NAME", default="", help="name of a model, to test it too"
            ),
            Argument(
                "--require",
                choices=PROTOCOLS,
                default="",
                help="protocol that the server must support",
            ),
            timeout(5.0),
            output("table", "json"),
        ),
        (
            "moorage conformance localhost:8000 --model digits",
            "moorage conformance localhost:8000 --grpc localhost:8001 --require OpenInference",
        ),
    ),
    Command(
        "top",
        "show the usage and the requests of each replica",
        "CPU and memory come from the metrics API, if the cluster has one. Requests, failures and "
        "mean latency since the start come from the metrics of the bundled runtime, through a "
        "port-forward to each pod. A dash means that the value is not available. REASON says why "
        "the server of a pod does not run, such as Terminating or CrashLoopBackOff. Such a pod is "
        "not queried.",
        (
            MAYBE_NAME,
            NAMESPACE,
            ALL,
            *ACCESS,
            timeout(5.0),
            output("table", "json"),
            *CLUSTER,
        ),
        ("moorage top", "moorage top iris"),
    ),
    Command(
        "ui",
        "open a local page with all models",
        "Serves a page on the loopback address and opens it in a browser: a wall of models with "
        "their states and reasons, and for each model the causes, the replicas, the rollout, live "
        "logs, requests over time, and a form that sends it a request. The page acts with the "
        "rights of the kubeconfig, and only for browsers that have the printed URL. Ctrl-C ends "
        "it, with exit status 0.",
        (
            Argument(
                "--port",
                metavar="PORT",
                type=port,
                default=0,
                help="port of the page; 0 is any free port",
            ),
            Argument("--no-browser", action="store_true", help="only print the URL of the page"),
            Argument(
                "-n",
                "--namespace",
                metavar="NS",
                type=namespace,
                default="",
                help="models of this namespace; defaults to all namespaces",
            ),
            *CLUSTER,
        ),
        ("moorage ui", "moorage ui -n models --port 9000 --no-browser"),
    ),
    Command(
        "ui-server",
        "serve the page in a cluster, for users who sign in",
        "What the chart's page.enabled runs in a pod. It has no rights: it uses the bearer token "
        "of each request against the API server, whose address it reads from "
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. The token comes from an "
        "authenticating proxy, or the user pastes it into the page. Serves plain HTTP. SIGTERM "
        "ends it, with exit status 0.",
        (
            Argument(
                "--listen",
                metavar="ADDRESS",
                default="::",
                help="address to listen on; :: is all of IPv6 and IPv4",
            ),
            Argument(
                "--port",
                metavar="PORT",
                type=port,
                default=8080,
                help="port of the page; 0 is any free port",
            ),
            Argument(
                "--api-server-ca",
                metavar="FILE",
                default="/etc/moorage/api-server/ca.crt",
                help="CAs in PEM that have issued the certificate of the API server, such as the "
                "ConfigMap kube-root-ca.crt",
            ),
        ),
        ("moorage ui-server", "moorage ui-server --listen 127.0.0.1 --port 8081"),
    ),
    COMPLETION,
)


def parser(program: str = "moorage") -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog=program,
        description="Serves model files on this machine and in a cluster, shows the state of "
        "InferenceModels, explains failures and controls rollouts.",
        epilog="exit status: 0 success, 1 not ready or failed, 2 invalid usage, 3 rollout failed",
    )
    version = f"%(prog)s {importlib.metadata.version('moorage-cli')}"
    top.add_argument("--version", action="version", version=version, help="print the version")
    below = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=_CommandParser)
    for command in COMMANDS:
        made = below.add_parser(
            command.name,
            help=command.summary,
            description=command.about,
            epilog=_examples(command.examples),
            formatter_class=_Formatter,
        )
        for argument in command.arguments:
            made.add_argument(*argument.names, **argument.options)
    return top


def check_first_word(reader: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """End with invalid usage, and the fix, at a misspelled command or a misplaced option."""
    first = words[0] if words else ""
    names = [command.name for command in COMMANDS]
    option = first.partition("=")[0]
    if option in _command_options():
        reader.error(f"{option} must follow the command: {reader.prog} COMMAND {option} ...")
    similar = difflib.get_close_matches(first, names, n=1)
    if similar and first not in names:
        reader.error(f"{first!r} is not a command: did you mean {similar[0]}?")


def _command_options() -> set[str]:
    names = {name for command in COMMANDS for each in command.arguments for name in each.names}
    return {name for name in names if name.startswith("-")}


class _CommandParser(argparse.ArgumentParser):
    """The parser of one command, which shows its own usage if an argument is unknown."""

    def parse_known_args(self, *words: Any, **options: Any) -> Any:
        """The arguments of the command; unknown ones end with invalid usage."""
        found, unknown = super().parse_known_args(*words, **options)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


class _Formatter(argparse.HelpFormatter):
    """Wraps texts, but not within a name such as --in-place, and keeps lines of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return "".join(f"{indent}{line}\n" for line in text.splitlines())
        lines = self._split_lines(text, width - len(indent))
        return "\n".join(f"{indent}{line}" for line in lines)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def _examples(lines: Sequence[str]) -> str:
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)
