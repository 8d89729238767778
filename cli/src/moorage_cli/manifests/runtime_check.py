"""Checks of InferenceRuntimes beyond their schema, and of models with the runtimes they use; pure.

    lint --> **runtime_check**: specs that their schemas accept --> problems

Only what the files show is judged: a runtime that no file has may exist in the cluster.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moorage_cli.manifests.device_check import MODEL_SERVER, RUNTIME_SERVER, device_problems
from moorage_cli.manifests.fields import mapping
from moorage_cli.manifests.spec_check import pod_template_problems, request_problems
from moorage_cli.manifests.structural import Problem

__all__ = ["Named", "runtime_problems", "together"]

# What the operator sets in each pod of a model with files; tests/contract compares them.
VARIABLES = (
    "MOORAGE_GRPC_PORT",
    "MOORAGE_HTTP_PORT",
    "MOORAGE_MODEL_NAME",
    "MOORAGE_MODEL_PATH",
    "MOORAGE_MODEL_REPOSITORY",
)
_REFERENCE = re.compile(r"\$\$|\$\((MOORAGE_[^)]*)\)")


@dataclass(frozen=True, slots=True)
class Named:
    """A resource of the files: a model or a runtime, with its name and its spec."""

    is_runtime: bool
    name: str
    spec: Mapping[str, Any]


def runtime_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """The problems of the spec of an InferenceRuntime."""
    return [
        *_unknown_variables(spec),
        *pod_template_problems(spec),
        *device_problems(spec, RUNTIME_SERVER),
    ]


def together(resources: Sequence[Named]) -> Iterator[tuple[int, Problem]]:
    """The problems of resources with each other, each with the position of one to correct."""
    runtimes = {each.name: each.spec for each in resources if each.is_runtime}
    defaults = [
        (at, each)
        for at, each in enumerate(resources)
        if each.is_runtime and each.spec.get("default") and "allowedNamespaces" not in each.spec
    ]
    for at, each in defaults[1:]:
        if each.name != defaults[0][1].name:
            problem = (
                f"true conflicts with InferenceRuntime {defaults[0][1].name}: a namespace can "
                "have only one default; remove one, or set allowedNamespaces of both"
            )
            yield at, Problem("spec.default", problem)
    for at, each in enumerate(resources):
        if not each.is_runtime:
            for problem in _model_problems(each.spec, runtimes):
                yield at, problem


def _model_problems(
    spec: Mapping[str, Any], runtimes: Mapping[str, Mapping[str, Any]]
) -> Iterator[Problem]:
    server, model = mapping(spec.get("runtime")), mapping(spec.get("model"))
    name, model_format = server.get("name"), model.get("format")
    found = runtimes.get(str(name))
    if found is None:
        return
    formats = [str(mapping(each).get("name")) for each in found.get("formats") or ()]
    if model_format and model_format not in formats:
        problem = (
            f"{model_format!r} is not a format of the InferenceRuntime {name}, whose formats are "
            f"{', '.join(formats) or 'none'}"
        )
        yield Problem("spec.model.format", problem)
    yield from request_problems(spec, found)
    yield from device_problems(spec, MODEL_SERVER, found)


def _unknown_variables(spec: Mapping[str, Any]) -> Iterator[Problem]:
    env = [mapping(each) for each in spec.get("env") or ()]
    known = [*VARIABLES, *(str(each.get("name")) for each in env)]
    texts = {
        **{f"spec.{field}[{at}]": text
           for field in ("command", "args") for at, text in enumerate(spec.get(field) or ())},
        **{f"spec.env[{at}].value": each.get("value") for at, each in enumerate(env)},
    }  # fmt: skip
    for path, text in texts.items():
        for found in _REFERENCE.finditer(str(text)):
            if found[1] and found[1] not in known:
                near = difflib.get_close_matches(found[1], known)
                hint = f"; did you mean $({near[0]})?" if near else ""
                problem = f"$({found[1]}) is not a variable of the operator or of spec.env{hint}"
                yield Problem(path, problem)
