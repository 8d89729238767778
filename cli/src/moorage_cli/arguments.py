"""The command line: every command, its arguments, and the words that teach them.

`--help`, the completion and docs/reference/cli.md are all made from `COMMANDS`.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .inference import InferenceProtocol

__all__ = ["COMMANDS", "Argument", "Command", "parser"]

PROTOCOLS = tuple(str(protocol) for protocol in InferenceProtocol)


class Argument:
    """One argument as argparse takes it, with what completes it."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.names = names
        self.options = options

    @property
    def is_option(self) -> bool:
        """Whether it begins with a dash."""
        return self.names[0].startswith("-")


@dataclass(frozen=True, slots=True)
class Command:
    """A command: one line, what it teaches, its arguments, and commands that show it."""

    name: str
    summary: str
    about: str
    arguments: tuple[Argument, ...]
    examples: tuple[str, ...]


_NAMESPACE = Argument(
    "-n", "--namespace", metavar="NS", default="",
    help="the namespace; that of the kubeconfig's context where it is absent",
)  # fmt: skip
_ALL = Argument("-A", "--all-namespaces", action="store_true", help="the models of all namespaces")
_CLUSTER = (
    Argument("--kubeconfig", metavar="FILE", default="", help="another kubeconfig"),
    Argument("--context", metavar="NAME", default="", help="another context of the kubeconfig"),
)
_NAME = Argument("name", metavar="NAME", help="the InferenceModel")
_MAYBE_NAME = Argument("name", metavar="NAME", nargs="?", default="", help="one InferenceModel")


def _output(*forms: str) -> Argument:
    return Argument(
        "-o", "--output", choices=forms, default=forms[0], help="the form of what is printed"
    )


def _seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"expected seconds between 0 and 86400, got {text}")
    return value


def _timeout(default: float) -> Argument:
    return Argument(
        "--timeout", metavar="SECONDS", type=_seconds, default=default,
        help="how long an answer is waited for",
    )  # fmt: skip


COMMANDS: tuple[Command, ...] = (
    Command(
        "status",
        "what serves, and how far the others have come",
        "One row a model, or with NAME its conditions and replicas too. PROGRESS counts the steps "
        "to Ready and names the one that is not done: 2/4 ProtocolMatched. The exit status is 0 "
        "when every model that is shown is ready for its spec as it stands, else 1.",
        (
            _MAYBE_NAME,
            _NAMESPACE,
            _ALL,
            Argument("-w", "--watch", action="store_true", help="go on with a row a change"),
            _output("table", "json", "name"),
            *_CLUSTER,
        ),
        ("moorage status", "moorage status iris -n models", "moorage status -A -o json"),
    ),
    Command(
        "why",
        "the chain of causes, and what to do",
        "The conditions that are against the model in the order of blame, then the replicas that "
        "do not serve, the last failure with its log lines, and the cluster's events, each with "
        "what to do about it. The exit status is 0 when the model is ready, else 1.",
        (_NAME, _NAMESPACE, _output("text", "json"), *_CLUSTER),
        ("moorage why iris",),
    ),
    Command(
        "infer",
        "send a request from a file and print the answer",
        "FILE is an Open Inference request in JSON; '-' is the standard input. It is sent in the "
        "model's own protocol. A TensorFlow Serving or GRPS request in JSON "
        "goes as it stands. The exit status is 0 when the server answers with a success, else 1.",
        (
            _NAME,
            Argument("-f", "--file", metavar="FILE", required=True, help="the request"),
            Argument(
                "--protocol",
                choices=PROTOCOLS,
                default="",
                help="another protocol than the one in the model's status",
            ),
            Argument(
                "--transport",
                choices=("HTTP", "GRPC"),
                default="HTTP",
                help="over which of the pod's ports",
            ),
            Argument(
                "--model-version",
                metavar="VERSION",
                default="",
                help="a version; the server's choice where it is absent",
            ),
            Argument(
                "--via",
                choices=("port-forward", "service"),
                default="port-forward",
                help="port-forward: through the API server to a ready pod; service: straight to "
                "the Service's address, from inside the cluster",
            ),
            _timeout(60.0),
            _NAMESPACE,
            *_CLUSTER,
        ),
        (
            "moorage infer digits -f examples/01-digits/samples/digit-3.json",
            "moorage infer digits -f request.json --protocol TensorFlowServing",
            "moorage infer digits -f request.json --transport GRPC",
        ),
    ),
    Command(
        "lint",
        "check manifests without a cluster",
        "Every InferenceModel of the files against the schema and the rules of the API that this "
        "tool was made with; one line a problem, with the field's path. With --model the contract "
        "and the smoke tests are held against the model's own tensors as well. The exit status is "
        "1 when there is a problem.",
        (
            Argument("files", metavar="FILE", nargs="+", help="a manifest; '-' is standard input"),
            Argument(
                "--model",
                metavar="ONNX",
                default="",
                help="the ONNX file that is to be served; needs the package onnx",
            ),
            _output("text", "json"),
        ),
        (
            "moorage lint model.yaml",
            "moorage lint model.yaml --model model.onnx",
            "helm template . | moorage lint -",
        ),
    ),
    Command(
        "conformance",
        "which parts of which protocols a server speaks",
        "ADDRESS is HOST:PORT of a server's HTTP port, or its URL. Only questions that change "
        "nothing are asked. The exit status is 0 when a protocol is spoken in every part that was "
        "asked over one transport, else 1.",
        (
            Argument("address", metavar="ADDRESS", help="the HTTP port of a server"),
            Argument("--grpc", metavar="ADDRESS", default="", help="its gRPC port, asked too"),
            Argument("--model", metavar="NAME", default="", help="a model, asked about too"),
            Argument(
                "--require",
                choices=PROTOCOLS,
                default="",
                help="exit with 0 only when this protocol is spoken",
            ),
            _timeout(5.0),
            _output("table", "json"),
        ),
        (
            "moorage conformance localhost:8000 --model digits",
            "moorage conformance localhost:8000 --grpc localhost:8001 --require OpenInference",
        ),
    ),
    Command(
        "top",
        "what each replica uses, and what it has answered",
        "CPU and memory come from the metrics API where the cluster has one; requests, failures "
        "and the mean time since the start come from the bundled runtime's own metrics, through a "
        "port-forward to each pod. A dash: nobody tells.",
        (_MAYBE_NAME, _NAMESPACE, _ALL, _timeout(5.0), _output("table", "json"), *_CLUSTER),
        ("moorage top", "moorage top iris"),
    ),
    Command(
        "completion",
        "print a completion script for a shell",
        "Names of models are completed from the cluster.",
        (Argument("shell", choices=("bash", "zsh"), help="the shell"),),
        ("source <(moorage completion bash)", "source <(moorage completion zsh)"),
    ),
)


def parser(program: str = "moorage") -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog=program,
        description="Asks a cluster about its InferenceModels: what serves, why not, what to do.",
        epilog="exit status: 0 ok, 1 not ready or failed, 2 wrong usage",
    )
    below = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
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


class _Formatter(argparse.HelpFormatter):
    """Folds the description and keeps the lines of the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return "".join(f"{indent}{line}\n" for line in text.splitlines())
        return super()._fill_text(text, width, indent)


def _examples(lines: Sequence[str]) -> str:
    return "examples:\n" + "\n".join(f"  {line}" for line in lines)
