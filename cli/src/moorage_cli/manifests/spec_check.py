"""Checks of a spec beyond its schema: smoke tests, podTemplate and scaling; pure.

    lint --> **spec_check**: a spec that the schema accepts --> problems

The API server accepts these specs, and the operator, the Deployment or the autoscaler refuses them
later. The fields of pods are those of the `kubernetes` package; `make generate` packages them.
"""

import difflib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, cast

from moorage_cli.manifests.device_check import MODEL_SERVER, device_problems
from moorage_cli.manifests.fields import mapping, mappings
from moorage_cli.manifests.structural import Problem

__all__ = [
    "POD_SPEC_FIELDS",
    "pod_template_problems",
    "request_problems",
    "spec_problems",
    "takes_runtime",
]

_POD_SPEC = "V1PodSpec"
_RUNTIME_CONTAINER = "runtime"
_NEVER_IN_DEPLOYMENTS = ("activeDeadlineSeconds", "ephemeralContainers")
# The operator's limits of a smoke test in JSON.
_BODY_LIMIT_BYTES = 64 << 10
_VALUE_LIMIT_CHARACTERS = 4096
# Source: Open Inference Protocol V2, "Tensor Data Types".
_INTEGERS: Mapping[str, range] = {
    **{f"INT{bits}": range(-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": range(2**bits) for bits in (8, 16, 32, 64)},
}


def spec_problems(spec: Mapping[str, Any]) -> list[Problem]:
    """The problems of a spec as the user wrote it, without the CRD's defaults."""
    return [
        *_smoke_test_problems(spec),
        *pod_template_problems(spec),
        *_scaling_problems(spec),
        *([] if takes_runtime(spec) else _container_problems(spec)),
    ]


def _container_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    yield from request_problems(spec)
    yield from device_problems(spec, MODEL_SERVER)


def _smoke_test_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    for at, test in enumerate(mappings(mapping(spec.get("smokeTests")).get("tests"))):
        for number, tensor in enumerate(mappings(test.get("inputs"))):
            path = f"spec.smokeTests.tests[{at}].inputs[{number}].data"
            shape = cast("Sequence[int]", tensor["shape"])
            values = list(_flat(tensor["data"]))
            wanted = math.prod(shape)
            if len(values) != wanted:
                counts = f"has {len(values)} elements, but shape {list(shape)} requires {wanted}"
                yield Problem(path, counts)
                continue
            datatype = str(tensor["datatype"])
            odd = next((value for value in values if not _fits(value, datatype)), None)
            if odd is not None:
                yield Problem(path, f"{json.dumps(odd)} is not a valid {datatype}")
        yield from _request_problems(test, f"spec.smokeTests.tests[{at}]")


def _request_problems(test: Mapping[str, Any], path: str) -> Iterator[Problem]:
    body = mapping(mapping(test.get("request")).get("body"))
    size = len(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
    if size > _BODY_LIMIT_BYTES:
        problem = f"has {size} bytes as JSON: must have at most {_BODY_LIMIT_BYTES}"
        yield Problem(f"{path}.request.body", problem)
    if body.get("stream") is True:
        problem = "true is invalid: must be false or absent, because a test reads one document"
        yield Problem(f"{path}.request.body.stream", problem)
    for at, expectation in enumerate(mappings(test.get("expect"))):
        value = expectation.get("value")
        is_long = isinstance(value, str) and len(value) > _VALUE_LIMIT_CHARACTERS
        if is_long or isinstance(value, Mapping | list):
            problem = (
                "must be a number, a boolean or a string of at most "
                f"{_VALUE_LIMIT_CHARACTERS} characters"
            )
            yield Problem(f"{path}.expect[{at}].value", problem)


def _flat(data: Any) -> Iterator[Any]:
    if isinstance(data, list):
        for item in cast("list[Any]", data):
            yield from _flat(item)
    else:
        yield data


def _fits(value: Any, datatype: str) -> bool:
    if datatype == "BYTES":
        return isinstance(value, str)
    if datatype == "BOOL":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    integers = _INTEGERS.get(datatype)
    return integers is None or (isinstance(value, int) and value in integers)


def pod_template_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """The fields of the pod template of a model or a runtime that a Deployment refuses."""
    template = mapping(spec.get("podTemplate"))
    path = "spec.podTemplate.spec"
    yield from _unknown(template.get("spec"), _POD_SPEC, path)
    pod = mapping(template.get("spec"))
    if pod.get("restartPolicy", "Always") not in ("Always", None):
        yield Problem(f"{path}.restartPolicy", "must be Always, as in every Deployment")
    for name in _NEVER_IN_DEPLOYMENTS:
        if pod.get(name):
            yield Problem(f"{path}.{name}", "is not allowed in a Deployment: remove it")
    for field in ("initContainers", "containers"):
        containers = [each.get("name") for each in mappings(pod.get(field))]
        for at, name in enumerate(containers):
            if name is not None and name in containers[:at]:
                yield Problem(f"{path}.{field}[{at}].name", f"{name!r} occurs twice")


def _unknown(value: Any, kind: str, path: str) -> Iterator[Problem]:
    if isinstance(value, list):
        for at, item in enumerate(cast("list[Any]", value)):
            yield from _unknown(item, kind, f"{path}[{at}]")
    known = _POD_FIELDS.get(kind)
    if known is None or not isinstance(value, Mapping):
        return
    for name, below in cast("Mapping[str, Any]", value).items():
        if name in known:
            yield from _unknown(below, known[name], f"{path}.{name}")
        else:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Problem(f"{path}.{name}", f"unknown field{hint}")


def takes_runtime(spec: Mapping[str, Any]) -> bool:
    """Whether an InferenceRuntime may set the requests of the model."""
    named = mapping(spec.get("runtime")).get("name"), mapping(spec.get("model")).get("format")
    return any(named)


def _scaling_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    if mapping(spec.get("scaling")) and spec.get("replicas") is not None:
        yield Problem(
            "spec.replicas",
            f"{spec['replicas']} conflicts with spec.scaling, which sets the number of replicas: "
            "remove spec.replicas",
        )


def request_problems(
    spec: Mapping[str, Any], runtime: Mapping[str, Any] | None = None
) -> Iterator[Problem]:
    """The requests that the metrics of scaling need and that are absent.

    Args:
        spec: The spec of a model.
        runtime: The spec of its InferenceRuntime, whose requests count as well.
    """
    scaling = mapping(spec.get("scaling"))
    if not scaling:
        return
    given = mappings(scaling.get("metrics"))
    for at, metric in enumerate(given or [{"type": "CPU"}]):
        resource = str(metric["type"]).lower()
        has_request = _has_request(spec, resource) or _has_request(runtime or {}, resource)
        if resource in {"cpu", "memory"} and not has_request:
            yield Problem(
                f"spec.scaling.metrics[{at}]" if given else "spec.scaling",
                f"a metric of type {metric['type']} requires a request: set "
                f"spec.runtime.resources.requests.{resource}",
            )


def _has_request(spec: Mapping[str, Any], resource: str) -> bool:
    """Whether the runtime container has a request; a limit without a request implies one.

    The spec is that of a model, or of an InferenceRuntime, which has `resources` at its top.
    """
    template = mapping(mapping(spec.get("podTemplate")).get("spec"))
    containers = [
        container
        for container in mappings(template.get("containers"))
        if container.get("name") == _RUNTIME_CONTAINER
    ]
    return any(
        mapping(mapping(container.get("resources")).get(bound)).get(resource) is not None
        for container in (spec, mapping(spec.get("runtime")), *containers)
        for bound in ("requests", "limits")
    )


def _load() -> Mapping[str, Mapping[str, str]]:
    text = (files("moorage_cli") / "data" / "pod_fields.json").read_text(encoding="utf-8")
    return json.loads(text)


_POD_FIELDS = _load()
POD_SPEC_FIELDS = frozenset(_POD_FIELDS[_POD_SPEC])
