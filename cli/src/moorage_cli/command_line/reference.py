"""Generates docs/reference/cli.md from the commands; pure."""

from moorage_cli.command_line.arguments import COMMANDS, Argument, Command

__all__ = ["page"]

_HEAD = """\
# Command-line tool

`moorage` serves model files on your machine and in a cluster, shows the state of InferenceModels,
explains failures and controls rollouts.
It uses your kubeconfig and your permissions, and requires only the CRD in the cluster. `status`
reads `inferencemodels`, `runtimes` also `inferenceruntimes`, and `why` and `wait` also `events`,
which they leave out if you may not read them. `infer`, `bench` and `top` read `pods` and create
`pods/portforward`. For a model with `spec.tls` or `spec.access`, they also [read its
Secrets](../how-to/tls-and-tokens.md#send-requests). `logs` reads `pods` and `pods/log`, `events`
reads `pods` and `events`. `run`, `lint`, `convert`, `conformance` and `completion` need no
cluster. `rollback` and `rollout` also read `replicasets` and `controllerrevisions`. A command that
finds no model reads the namespace, to report one that does not exist. Without that right, it
reports only that no model was found.

Requests to the cluster use the proxy that kubectl uses: `proxy-url` of the kubeconfig, or
`HTTPS_PROXY` and `NO_PROXY` of the environment, except for the loopback address.

`promote`, `abort`, `restart`, `retry`, `scale`, `rollback`, `pause` and `resume` each patch fields
of the spec, if nobody has changed the model in between. `deploy` writes a model and
[what it uploads](../how-to/deploy-a-file.md#in-a-cluster), and `delete` deletes a model. No other
command changes anything.

```sh
uv tool install ./cli      # or: pipx install ./cli
kubectl moorage status     # the same program: kubectl finds `kubectl-moorage`
```

uv and pipx give the tool an environment of its own; there is
[no krew plugin](../decisions/krew.md).

| exit status | meaning |
|---|---|
| 0 | success: ready, valid or answered |
| 1 | not ready, invalid, or failed; a message on standard error gives the reason of a failure |
| 2 | invalid usage |
| 3 | `wait`, `deploy`, `rollout`: the rollout failed, or needs an edit of the spec to continue |
| 130 | interrupted by Ctrl-C; for `run`, which ends this way, the status is 0 |

Output has colours only on a terminal, without `NO_COLOR` and `TERM=dumb`. It is UTF-8 in every
locale. Control characters in the text of model servers are replaced. For scripts, use `-o json`;
an error message is plain text. `moorage --version` prints the version.

Words that an option offers as a choice are accepted in any case: `--transport grpc`. An empty
argument is invalid usage: `moorage delete "$NAME"` fails if the variable is not set.
"""


def page() -> str:
    """The page."""
    return "\n".join([_HEAD, *(_chapter(command) for command in COMMANDS)])


def _chapter(command: Command) -> str:
    rows = "".join(_row(argument) for argument in command.arguments)
    examples = "".join(f"{line}\n" for line in command.examples)
    return (
        f"## moorage {command.name}\n\n{command.about}\n\n"
        f"| argument | default | meaning |\n|---|---|---|\n{rows}\n```sh\n{examples}```\n"
    )


def _row(argument: Argument) -> str:
    options = argument.options
    value = options.get("metavar", "")
    if argument.is_option:
        names = ", ".join(f"`{name}`" for name in argument.names)
        names += f" `{value}`" if value else ""
    else:
        names = f"`{value or argument.names[0]}`"
    meaning = options["help"]
    if "choices" in options:
        meaning += f": one of {', '.join(f'`{choice}`' for choice in options['choices'])}"
    default = f"`{options['default']}`" if options.get("default") else ""
    if options.get("required") or not (argument.is_option or options.get("nargs") == "?"):
        default = "required"
    return f"| {names} | {default} | {meaning} |\n"
