"""What a command line consists of: commands, arguments, and those that several commands have.

`starting`, `offline` and `arguments` declare the commands.
"""

import argparse
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ACCESS",
    "ALL",
    "CLUSTER",
    "MAYBE_NAME",
    "NAME",
    "NAMESPACE",
    "Argument",
    "Command",
    "count",
    "output",
    "port",
    "rate",
    "seconds",
    "timeout",
]


class Argument:
    """One argument of argparse, also used for completion."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.names = names
        self.options = options

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
    "-n", "--namespace", metavar="NS", default="",
    help="namespace; defaults to the namespace of the kubeconfig's context",
)  # fmt: skip
ALL = Argument("-A", "--all-namespaces", action="store_true", help="models of all namespaces")
CLUSTER = (
    Argument("--kubeconfig", metavar="FILE", default="", help="path of the kubeconfig"),
    Argument("--context", metavar="NAME", default="", help="context of the kubeconfig"),
)
NAME = Argument("name", metavar="NAME", help="name of the InferenceModel")
MAYBE_NAME = Argument(
    "name", metavar="NAME", nargs="?", default="", help="name of an InferenceModel"
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


def seconds(text: str) -> float:
    """A positive number of seconds."""
    value = float(text)
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{text} is invalid: must be above 0, at most 86400")
    return value


def rate(text: str) -> float:
    """A positive number of requests per second."""
    value = float(text)
    if not 0 < value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is invalid: must be above 0, at most 100000")
    return value


def timeout(default: float) -> Argument:
    """The option for the time to wait for a response."""
    return Argument(
        "--timeout", metavar="SECONDS", type=seconds, default=default,
        help="how long to wait for a response",
    )  # fmt: skip


def count(text: str) -> int:
    """A whole number that is not negative."""
    if not (text.isdecimal() and int(text) <= 2**31 - 1):
        raise argparse.ArgumentTypeError(f"{text!r} is invalid: must be 0 or greater")
    return int(text)


def port(text: str) -> int:
    """A port number; 0 means any free port."""
    if not (text.isdecimal() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is invalid: must be a number from 0 to 65535")
    return int(text)
