"""Containers and pod fields of a KServe resource as `runtime` and `podTemplate`; pure.

kserve, serving_runtimes --> **containers** --> draft

KServe puts the files of a model into /mnt/models. The operator does so too, except for a path of a
claim, so the texts of a container get the variable that names the folder.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moorage_cli.manifests.spec_check import POD_SPEC_FIELDS

from .draft import Draft, mapping_of
from .fields import Path, written_path

__all__ = ["Server", "carry_pod_fields", "carry_server", "default_ports"]

MODEL_FOLDER = "/mnt/models"
MODEL_PATH = "$(MOORAGE_MODEL_PATH)"
_FOLDER = re.compile(rf"{MODEL_FOLDER}(?![\w.-])")
# What Go templates of a ServingRuntime can name.
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_NAME_TEMPLATE = re.compile(r"\{\{-?\s*\.Name\s*-?\}\}")
MODEL_NAME = "$(MOORAGE_MODEL_NAME)"
KSERVE_HTTP_PORT = 8080
DEFAULT_HTTP_PORT, DEFAULT_GRPC_PORT = 8000, 8001
_GRPC_PORT_NAMES = frozenset({"h2c", "grpc"})
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_DIRECT = (
    "nodeSelector", "tolerations", "affinity", "priorityClassName", "serviceAccountName",
    "imagePullSecrets",
)  # fmt: skip
_OTHER_FIELDS = (
    "workingDir", "envFrom", *_PROBES, "lifecycle", "imagePullPolicy", "securityContext",
    "volumeMounts", "volumeDevices", "resizePolicy", "terminationMessagePath",
    "terminationMessagePolicy", "stdin", "stdinOnce", "tty",
)  # fmt: skip
_RESERVED = frozenset({"runtime", "fetch"})
_NAMED = "the operator names the container and its ports"
_CHECKS_KSERVE = (
    "checks a port and a path of KServe's server; the operator writes the probes of the one that "
    "serves the model here, and spec.health has their times"
)


@dataclass(frozen=True, slots=True)
class Server:
    """Where the parts of the server's container go.

    Args:
        at: Path of the container in the source.
        section: Path of the server's fields in the result: `spec.runtime`, or `spec` of a runtime.
        flags: Why its command and arguments are lost; empty if they are carried over.
        is_replaced: Whether a server with other ports takes its place, so that its probes are
            lost.
    """

    at: Path
    section: str
    flags: str = ""
    is_replaced: bool = False


def carry_server(draft: Draft, server: Server) -> None:
    """Carry over the open fields of the container that runs the model server."""
    at, section = server.at, server.section
    draft.leave((*at, "name"), _NAMED)
    draft.text(*at, "image")
    draft.move((*at, "image"), f"{section}.image")
    for part in ("command", "args"):
        if server.flags and draft.is_open((*at, part)):
            draft.lose((*at, part), server.flags)
        elif draft.is_open((*at, part)):
            _carry_words(draft, (*at, part), f"{section}.{part}")
    _carry_env(draft, at, section)
    for part in ("requests", "limits"):
        _carry_quantities(draft, (*at, "resources", part), f"{section}.resources.{part}")
    _carry_ports(draft, at, section)
    if server.is_replaced:
        for probe in _PROBES:
            draft.lose((*at, probe), _CHECKS_KSERVE)
    _carry_probes(draft, at)
    for name in _OTHER_FIELDS:
        if draft.is_open((*at, name)):
            _add_container(draft, {name: draft.take(*at, name)}, (*at, name))


def carry_pod_fields(draft: Draft, at: Path, *, is_runtime: bool) -> None:
    """Carry over the open fields of a pod spec, without its containers.

    Args:
        draft: The resource.
        at: Path of the pod spec in the source.
        is_runtime: Whether the result is an InferenceRuntime, which has `podTemplate` only.
    """
    for name in draft.keys(*at):
        path = (*at, name)
        if name == "containers" or not draft.is_open(path):
            continue
        if name == "restartPolicy" and draft.get(*path) == "Always":
            draft.leave(path, "pods of a Deployment always restart")
        elif name == "terminationGracePeriodSeconds":
            draft.move(path, "spec.health.terminationGracePeriodSeconds")
        elif name in _DIRECT and not is_runtime:
            draft.move(path, f"spec.{name}")
        elif name == "initContainers":
            _carry_containers(draft, path, name)
        elif name in POD_SPEC_FIELDS:
            draft.move(path, f"spec.podTemplate.spec.{name}")
    _carry_containers(draft, (*at, "containers"), "containers")


def _carry_containers(draft: Draft, path: Path, name: str) -> None:
    """Carry over containers beside the server."""
    for position, _ in enumerate(draft.items(*path)):
        own = (*path, position)
        if not draft.is_open(own):
            continue
        called = mapping_of(draft.get(*own)).get("name")
        if not isinstance(called, str) or called in _RESERVED:
            draft.lose(own, f"must have a name other than {', '.join(sorted(_RESERVED))}")
        elif called == "transformer-container":
            draft.lose(own, "requests go to the model server directly: write a Python model")
        else:
            target = f"spec.podTemplate.spec.{name}"
            listed = _listed(draft, name)
            draft.append(target, [*listed, draft.take(*own)], own)


def _add_container(draft: Draft, fields: Mapping[str, Any], origin: Path) -> None:
    """Add fields to the container `runtime` of the pod template."""
    listed = _listed(draft, "containers")
    own = next((each for each in listed if each.get("name") == "runtime"), {"name": "runtime"})
    others = [each for each in listed if each.get("name") != "runtime"]
    draft.append("spec.podTemplate.spec.containers", [{**own, **fields}, *others], origin)


def _listed(draft: Draft, name: str) -> list[dict[str, Any]]:
    template = mapping_of(mapping_of(draft.result.get("spec")).get("podTemplate"))
    return list(mapping_of(template.get("spec")).get(name, ()))


def _carry_quantities(draft: Draft, path: Path, target: str) -> None:
    """Carry over quantities; the API server refuses a number with a fraction."""
    if not draft.is_open(path):
        return
    given = draft.take(*path)
    fractions = {
        name: str(value) for name, value in mapping_of(given).items() if isinstance(value, float)
    }
    for name, text in fractions.items():
        draft.tell(f'{target}.{name} is "{text}", because a number must not have a fraction')
    draft.put(target, {**given, **fractions} if fractions else given, path)


def _carry_words(draft: Draft, path: Path, target: str) -> None:
    """Carry over a command or arguments, with the variables of the operator."""
    kept: list[str] = []
    for at, _ in enumerate(draft.items(*path)):
        word = draft.text(*path, at)
        if word is None:
            continue
        changed = _with_variables(word)
        if changed is None:
            draft.lose((*path, at), "a Go template: write the value, or use a variable")
            continue
        kept.append(changed)
        _close_word(draft, (*path, at), word, changed)
    if kept:
        draft.put(target, kept, path)


def _carry_env(draft: Draft, at: Path, section: str) -> None:
    kept: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    path = (*at, "env")
    for number, item in enumerate(draft.items(*path)):
        own = (*path, number)
        variable = mapping_of(item)
        name, value = variable.get("name"), variable.get("value")
        if not draft.is_open(own):
            continue
        if not isinstance(name, str) or not name or name in seen:
            draft.lose(own, "must have a name of its own")
            continue
        if not set(variable) <= {"name", "value", "valueFrom"} or not isinstance(
            value, str | None
        ):
            draft.lose(own, "must be a name with a string, or with valueFrom")
            continue
        seen.add(name)
        changed = _with_variables(value) if value is not None else None
        if value is not None and changed is None:
            draft.lose(own, "a Go template: write the value, or use a variable")
            continue
        taken = draft.get(*own)
        kept.append({**taken, "value": changed} if value is not None else taken)
        if value is not None and changed is not None:
            _close_word(draft, (*own, "value"), value, changed)
        draft.take(*own)
    if kept:
        draft.put(f"{section}.env", kept, path)


def _with_variables(word: str) -> str | None:
    """A text with the operator's variables; None if it has a template without one."""
    named = _NAME_TEMPLATE.sub(MODEL_NAME, word)
    return None if _TEMPLATE.search(named) else _FOLDER.sub(MODEL_PATH, named)


def _close_word(draft: Draft, path: Path, word: str, changed: str) -> None:
    if word == changed:
        draft.take(*path)
    else:
        draft.change(path, changed)


def _carry_ports(draft: Draft, at: Path, section: str) -> None:
    """Carry over the first HTTP port and the first gRPC port; the others stay in the pod."""
    path = (*at, "ports")
    found: dict[str, int] = {}
    others: list[Mapping[str, Any]] = []
    for number, item in enumerate(draft.items(*path)):
        own = (*path, number)
        port = mapping_of(item)
        value = port.get("containerPort")
        if isinstance(value, bool) or not isinstance(value, int):
            draft.lose(own, "must have a containerPort")
            continue
        name = str(port.get("name", ""))
        kind = "grpc" if name.startswith(tuple(_GRPC_PORT_NAMES)) else "http"
        is_tcp = port.get("protocol", "TCP") == "TCP"
        if kind in found or not is_tcp or value in found.values():
            others.append(draft.take(*own))
            _add_container(draft, {"ports": others}, own)
            continue
        found[kind] = value
        draft.put(f"{section}.ports.{kind}", value, (*own, "containerPort"))
        draft.take(*own, "containerPort")
        draft.take(*own, "protocol")
        draft.leave((*own, "name"), _NAMED)


def _carry_probes(draft: Draft, at: Path) -> None:
    """Replace the names of ports in probes by numbers, because the operator names the ports."""
    numbers = {
        name: mapping_of(item).get("containerPort")
        for item in draft.items(*at, "ports")
        if isinstance(name := mapping_of(item).get("name"), str)
    }
    for probe in _PROBES:
        for handler in ("httpGet", "tcpSocket"):
            path = (*at, probe, handler, "port")
            name = draft.get(*path)
            if isinstance(name, str) and not name.isdecimal():
                if name in numbers:
                    draft.change(path, f"{numbers[name]}: {_NAMED}")
                    own = mapping_of(draft.get(*at, probe))
                    handled = {**mapping_of(own.get(handler)), "port": numbers[name]}
                    _add_container(draft, {probe: {**own, handler: handled}}, (*at, probe))
                    draft.take(*at, probe)
                else:
                    draft.lose((*at, probe), f"no port has the name {name}")


def default_ports(draft: Draft, at: Path, section: str) -> None:
    """Set the HTTP port that KServe expects of a container without ports."""
    ports: dict[str, int] = mapping_of(_below(draft.result, section)).get("ports", {})
    if not ports:
        draft.put(f"{section}.ports.http", KSERVE_HTTP_PORT)
        draft.tell(
            f"{written_path((*at, 'ports'))} is not set: {section}.ports.http is "
            f"{KSERVE_HTTP_PORT}, the default of KServe"
        )
    elif "http" not in ports:
        draft.tell(f"{section}.ports has only grpc: set spec.transport to GRPC")
    if ports.get("http") == DEFAULT_GRPC_PORT and "grpc" not in ports:
        draft.put(f"{section}.ports.grpc", DEFAULT_HTTP_PORT)
    if ports.get("grpc") == DEFAULT_HTTP_PORT and "http" not in ports:
        draft.put(f"{section}.ports.http", DEFAULT_GRPC_PORT)


def _below(result: Mapping[str, Any], path: str) -> Any:
    value: Any = result
    for part in path.split("."):
        value = mapping_of(value).get(part)
    return value
