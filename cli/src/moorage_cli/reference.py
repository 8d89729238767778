"""docs/reference/cli.md, made from the commands; pure."""

from .arguments import COMMANDS, Argument, Command

__all__ = ["page"]

_HEAD = """\
# The command-line tool

`moorage` asks a cluster about its InferenceModels: what serves, why not, and what to do. It uses
your kubeconfig and your rights, needs nothing in the cluster but the CRD, and changes nothing.
`status` reads `inferencemodels`, `why` also `events`; `infer` and `top` read `pods` and create
`pods/portforward`. `lint`, `conformance` and `completion` need no cluster.

```sh
pip install ./cli
kubectl moorage status     # the same program: kubectl finds `kubectl-moorage`
```

| exit status | means |
|---|---|
| 0 | yes: ready, valid, answered |
| 1 | no, or it could not be found out; the sentence on standard error says why |
| 2 | wrong usage |

Colours are for terminals alone, and not with `NO_COLOR` set. Text of model servers is printed
without control characters. `-o json` is for scripts.
"""


def page() -> str:
    """The page."""
    return "\n".join([_HEAD, *(_chapter(command) for command in COMMANDS)])


def _chapter(command: Command) -> str:
    rows = "".join(_row(argument) for argument in command.arguments)
    examples = "".join(f"{line}\n" for line in command.examples)
    return (
        f"## moorage {command.name}\n\n{command.summary[0].upper()}{command.summary[1:]}. "
        f"{command.about}\n\n"
        f"| argument | default | means |\n|---|---|---|\n{rows}\n```sh\n{examples}```\n"
    )


def _row(argument: Argument) -> str:
    options = argument.options
    value = options.get("metavar", "")
    if argument.is_option:
        names = ", ".join(f"`{name}`" for name in argument.names)
        names += f" `{value}`" if value else ""
    else:
        names = f"`{value or argument.names[0]}`"
    means = options["help"]
    if "choices" in options:
        means += f": one of {', '.join(f'`{choice}`' for choice in options['choices'])}"
    default = f"`{options['default']}`" if options.get("default") else ""
    if options.get("required") or not (argument.is_option or options.get("nargs") == "?"):
        default = "required"
    return f"| {names} | {default} | {means} |\n"
