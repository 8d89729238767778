"""What `kubectl moorage` offers when the user presses Tab; pure.

words of the command line --> **offered** --> commands.kubectl_completion
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from moorage_cli.command_line.arguments import COMMANDS
from moorage_cli.command_line.completion import (
    NAMES,
    options_of,
    positions_of,
    takes_file,
    takes_value,
)

__all__ = ["Offered", "offered"]

# The options that say where names come from, and their long forms.
_WHERE = {
    "-n": "namespace", "--namespace": "namespace", "--context": "context",
    "--kubeconfig": "kubeconfig",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Offered:
    """What can stand at the place of the last word.

    Args:
        words: Words with their descriptions, "" for none.
        names: Names of the cluster: "models", "runtimes" or "".
        where: Namespace, context and kubeconfig of these names, as far as they are given.
        files: Whether a path can stand there.
    """

    words: Mapping[str, str] = field(default_factory=dict[str, str])
    names: str = ""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    files: bool = False


def offered(words: Sequence[str]) -> Offered:
    """What fits in the place of the last word.

    Args:
        words: The words after the name of the program; the last one is incomplete, perhaps empty.
    """
    *before, current = words
    if not before:
        return Offered({each.name: each.summary for each in COMMANDS})
    command = next((each for each in COMMANDS if each.name == before[0]), None)
    if command is None:
        return Offered()
    options = {name: each for each in options_of(command) for name in each.names}
    asked = options.get(before[-1])
    if asked is not None and takes_value(asked):
        choices = asked.options.get("choices", ())
        return Offered(dict.fromkeys(choices, ""), files=takes_file(asked))
    if current.startswith("-"):
        return Offered({name: each.options["help"] for name, each in options.items()})
    positions = positions_of(command)
    choices = [choice for each in positions for choice in each.options.get("choices", ())]
    commands = [NAMES[each.names[0]] for each in positions if each.names[0] in NAMES]
    names = "" if not commands else "runtimes" if "runtimes" in commands[0] else "models"
    where = {_WHERE[option]: value for option, value in pairwise(before) if option in _WHERE}
    files = any(takes_file(each) for each in positions)
    return Offered(dict.fromkeys(choices, ""), names, where, files)
