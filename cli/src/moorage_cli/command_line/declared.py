"""What a command line consists of: commands, arguments, and those that several commands have.

`starting`, `offline` and `arguments` declare the commands.
"""

from dataclasses import dataclass
from typing import Any

from moorage_cli.command_line.argument_types import (
    ABSENT,
    choice,
    namespace,
    object_name,
    path,
    seconds,
    text,
)

__all__ = [
    "ACCESS",
    "ALL",
    "CLUSTER",
    "MAYBE_NAME",
    "NAME",
    "NAMES",
    "NAMESPACE",
    "PATH_METAVARS",
    "Argument",
    "Command",
    "output",
    "timeout",
]

PATH_METAVARS = frozenset({"FILE", "PATH", "PATH|URI", "ONNX"})


class Argument:
    """One argument of argparse, also used for completion.

    Without a type, it is a text that must not be empty. The default "" means that it is absent.
    Choices are accepted in any case.
    """

    def __init__(self, *names: str, **options: Any) -> None:
        self.names = names
        self.options = options
        if not options.keys() & {"type", "action", "choices"}:
            is_path = options.get("metavar") in PATH_METAVARS
            options["type"] = path if is_path else text
        if "choices" in options:
            options["type"] = choice(options["choices"])
        if options.get("default") == "":
            options["default"] = ABSENT

    @property
    def is_option(self) -> bool:
        """Whether it starts with a dash."""
        return self.names[0].startswith("-")


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its summary, description, arguments and example command lines."""

    name: str
    summary: str
    about: str
    arguments: tuple[Argument, ...]
    examples: tuple[str, ...]


NAMESPACE = Argument(
    "-n", "--namespace", metavar="NS", type=namespace, default="",
    help="namespace; defaults to that of the kubeconfig's context, or of the pod in which the "
    "command runs",
)  # fmt: skip
ALL = Argument("-A", "--all-namespaces", action="store_true", help="models of all namespaces")
CLUSTER = (
    Argument("--kubeconfig", metavar="FILE", default="", help="path of the kubeconfig"),
    Argument("--context", metavar="NAME", default="", help="context of the kubeconfig"),
)
NAME = Argument("name", metavar="NAME", type=object_name, help="name of the InferenceModel")
NAMES = Argument(
    "names", metavar="NAME", nargs="+", type=object_name, help="names of InferenceModels"
)
MAYBE_NAME = Argument(
    "name",
    metavar="NAME",
    nargs="?",
    type=object_name,
    default="",
    help="name of an InferenceModel",
)


ACCESS = (
    Argument(
        "--ca-file", metavar="FILE", default="",
        help="CAs in PEM that have issued the certificate of a model with spec.tls; by default, "
        "ca.crt of its Secret",
    ),
    Argument(
        "--token-file", metavar="FILE", default="",
        help="file with the token of a model with spec.access; by default, the first token of its "
        "Secret",
    ),
)  # fmt: skip


def output(*forms: str) -> Argument:
    """The option for the output format, of which the first one is the default."""
    return Argument("-o", "--output", choices=forms, default=forms[0], help="output format")


def timeout(default: float) -> Argument:
    """The option for the time to wait for a response."""
    return Argument(
        "--timeout", metavar="SECONDS", type=seconds, default=default,
        help="how long to wait for a response",
    )  # fmt: skip
