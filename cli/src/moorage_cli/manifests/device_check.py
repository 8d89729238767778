"""Checks of GPUs and other devices in the resources of a model server; pure.

    lint --> **device_check**: specs that their schemas accept --> problems and notes

The API server accepts such a model. Later, Kubernetes refuses its pods, or the server computes on
the CPU while its GPU stays idle. A note does not fail the check.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from moorage_cli.manifests.fields import mapping
from moorage_cli.manifests.structural import Problem

__all__ = ["MODEL_SERVER", "RUNTIME_SERVER", "device_problems", "gpu_notes"]

# Where a model and an InferenceRuntime have the fields of the server's container.
MODEL_SERVER, RUNTIME_SERVER = "spec.runtime", "spec"
_CONTAINER = "runtime"
_PROVIDER = "MOORAGE_EXECUTION_PROVIDER"
_GUIDE = "as docs/how-to/gpus.md shows"
_GPU = re.compile(r"nvidia\.com/.+|(.*[./-])?gpu([./-].*)?")
# Images for GPUs are built from that of the bundled runtime, and get a name like it.
_BUNDLED = re.compile(r"moorage-runtime.*")
_FLAG = re.compile(r"--execution-provider[= ](\S+)")


def device_problems(
    spec: Mapping[str, Any], server: str, runtime: Mapping[str, Any] | None = None
) -> Iterator[Problem]:
    """The devices whose request differs from their limit.

    Args:
        spec: The spec of a model or of an InferenceRuntime.
        server: `MODEL_SERVER` or `RUNTIME_SERVER`.
        runtime: The spec of the InferenceRuntime that a model uses.

    Source: Kubernetes, "Extended resources": they cannot be overcommitted, so request and limit
    must be equal. A limit without a request implies one.
    """
    own = _parts(spec, server)
    whole = _whole(own, runtime)
    limits = _quantities(whole, "limits")
    for name, request in _quantities(whole, "requests").items():
        where = [path for path, part in own if name in _named(part)]
        if not where or not _is_device(name) or str(limits.get(name)) == str(request):
            continue
        limit = f"a limit of {limits[name]}" if name in limits else "no limit"
        yield Problem(
            f"{where[-1]}.resources",
            f"Kubernetes refuses a request of {name} {request} with {limit}: set "
            f"{where[-1]}.resources.limits to {{{name}: {request}}} and omit the request",
        )


def gpu_notes(
    spec: Mapping[str, Any], server: str, runtime: Mapping[str, Any] | None = None
) -> Iterator[Problem]:
    """Why the server of a model or of an InferenceRuntime computes on the CPU despite a GPU.

    Args:
        spec: The spec of a model or of an InferenceRuntime.
        server: `MODEL_SERVER` or `RUNTIME_SERVER`.
        runtime: The spec of the InferenceRuntime that a model uses.
    """
    whole = _whole(_parts(spec, server), runtime)
    gpu = next((name for name in _quantities(whole, "limits") if _GPU.fullmatch(name)), None)
    image = str(whole.get("image") or "")
    if gpu is None:
        return
    if not image:
        yield Problem(
            f"{server}.image",
            f"the default image computes on the CPU only and leaves {gpu} idle: set "
            f"{server}.image to an image for GPUs and, if it is built from the bundled runtime's, "
            f"{_PROVIDER} to cuda in {server}.env, {_GUIDE}",
        )
    elif _BUNDLED.fullmatch(image.rpartition("/")[2]) and not _names_provider(whole):
        yield Problem(
            f"{server}.env",
            f"the bundled runtime computes on the CPU by default and leaves {gpu} idle: set "
            f"{_PROVIDER} to cuda in {server}.env and use an image built with EXTRAS=gpu, "
            f"{_GUIDE}",
        )


def _is_device(name: str) -> bool:
    """Whether Kubernetes does not let a resource be overcommitted."""
    is_native = "/" not in name or "kubernetes.io/" in name
    return not is_native or name.startswith("hugepages-")


def _names_provider(whole: Mapping[str, Any]) -> bool:
    """Whether the command line or else the environment selects something other than the CPU."""
    words = " ".join(str(word) for part in ("command", "args") for word in whole.get(part) or ())
    if found := _FLAG.search(words):
        return found[1] != "cpu"
    return any(
        each.get("name") == _PROVIDER and each.get("value") != "cpu" for each in whole["env"]
    )


def _whole(
    own: list[tuple[str, Mapping[str, Any]]], runtime: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The server's container as pods get it: the parts of its spec over those of a runtime."""
    parts = [part for _, part in (*_parts(runtime or {}, RUNTIME_SERVER), *own)]
    whole = {name: value for part in parts for name, value in part.items() if value is not None}
    whole["env"] = [mapping(each) for part in parts for each in part.get("env") or ()]
    whole["resources"] = {
        bound: {
            name: quantity for part in parts for name, quantity in _quantities(part, bound).items()
        }
        for bound in ("requests", "limits")
    }
    return whole


def _parts(spec: Mapping[str, Any], server: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The parts of a spec that describe the server's container, by path; the last one wins."""
    fields = mapping(spec.get("runtime")) if server == MODEL_SERVER else spec
    template = mapping(mapping(spec.get("podTemplate")).get("spec"))
    containers = cast("list[Any]", template.get("containers") or [])
    return [
        (server, fields),
        *(
            (f"spec.podTemplate.spec.containers[{at}]", each)
            for at, each in enumerate(map(mapping, containers))
            if each.get("name") == _CONTAINER
        ),
    ]


def _quantities(part: Mapping[str, Any], bound: str) -> Mapping[str, Any]:
    return mapping(mapping(part.get("resources")).get(bound))


def _named(part: Mapping[str, Any]) -> set[str]:
    return {*_quantities(part, "requests"), *_quantities(part, "limits")}
