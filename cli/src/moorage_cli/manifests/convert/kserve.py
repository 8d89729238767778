"""InferenceServices of KServe (serving.kserve.io/v1beta1) as InferenceModels; pure.

InferenceService --> **kserve** --> draft --> texts

The predictor is `model`, or in the older shape a framework such as `sklearn`, or a container.

Sources: KServe, "Control Plane API Reference", "Predictive inference", "Custom predictor".
"""

import re
from collections.abc import Mapping
from typing import Any

from moorage_cli.manifests.lint import Schemas

from .containers import Server, carry_pod_fields, carry_server, default_ports
from .conversion import Conversion, ConversionError
from .draft import Draft, mapping_of
from .fields import Path
from .formats import ModelFormat, format_of
from .kserve_fields import FIELDS, FRAMEWORKS, GIVEN, STOP, UNREAD
from .locations import LocationError, kserve_location
from .metadata import carry_metadata, carry_texts, set_head
from .scaling import (
    NO_AUTOSCALER,
    carry_replicas,
    has_autoscaler,
    metric_of,
    request_cpu,
)

__all__ = ["convert_kserve", "leave_unread"]

GROUP_VERSION = "serving.kserve.io/v1beta1"
PREDICTOR = ("spec", "predictor")
KSERVE_CPU = "1"  # the request that KServe's own runtimes have
_CONTAINER = "kserve-container"
_FLAGS = "flags of KServe's server; see the settings of the runtime that serves the model here"
# protocolVersion: our protocol and transport.
_PROTOCOLS = {
    "v1": ("TensorFlowServing", ""),
    "v2": ("OpenInference", ""),
    "grpc-v2": ("OpenInference", "GRPC"),
    "grpc-v1": ("TensorFlowServing", ""),
}
# Flags of KServe's servers and of vLLM with the name that clients use.
_NAME_FLAGS = ("--model_name", "--model-name", "--served_model_name", "--served-model-name")
_NAME = re.compile(r"\.*[A-Za-z0-9_-][A-Za-z0-9._-]*")
_LONG_NAME = re.compile(r"[./:@+]*[A-Za-z0-9_-][A-Za-z0-9._/:@+-]*")
_NAME_LIMIT = 253
_RUNTIME_HINT = (
    "must exist as an InferenceRuntime: convert the ServingRuntime too, name a runtime of the "
    "chart moorage-runtimes, or remove spec.runtime.name to use the bundled runtime"
)


def convert_kserve(
    resource: Mapping[str, Any], schemas: Schemas, uri: str = ""
) -> Conversion | None:
    """Convert an InferenceService; None for any other resource.

    Raises:
        ConversionError: The predictor names neither a model nor a server.
    """
    if resource.get("kind") != "InferenceService" or resource.get("apiVersion") != GROUP_VERSION:
        return None
    draft = Draft(resource, FIELDS)
    set_head(draft, "InferenceModel")
    metrics = _metrics(draft)
    if str(draft.get("metadata", "annotations", STOP)).lower() == "true":
        draft.put("spec.suspend", value=True)
        draft.take("metadata", "annotations", STOP)
    leave_unread(draft)
    name = carry_metadata(draft)
    kind = _kind(draft)
    at = (*PREDICTOR, "containers", _server_position(draft)) if not kind else (*PREDICTOR, kind)
    if kind:
        _carry_model(draft, kind, name)
    else:
        _carry_custom(draft, at)
    _name_served(draft, at, name)
    _carry_storage_uris(draft)
    if uri:
        _override(draft, uri, at)
    carry_texts(draft, (*PREDICTOR, "labels"), "spec.podTemplate.metadata.labels")
    carry_texts(draft, (*PREDICTOR, "annotations"), "spec.podTemplate.metadata.annotations")
    carry_replicas(draft, PREDICTOR, metrics, (*PREDICTOR, "autoScaling"))
    _carry_strategy(draft)
    carry_pod_fields(draft, PREDICTOR, is_runtime=False)
    request_cpu(draft, KSERVE_CPU)
    return draft.settle(schemas)


def leave_unread(draft: Draft) -> None:
    """Close annotations and labels that only KServe or Knative read."""
    for part in ("annotations", "labels"):
        for name in draft.keys("metadata", part):
            path = ("metadata", part, name)
            values, reason = GIVEN.get(name, ((), ""))
            if draft.get(*path) in values:
                draft.leave(path, reason)
            for prefix, sentence in UNREAD.items():
                if name.startswith(prefix):
                    draft.lose(path, "" if draft.is_declared(path) else sentence)


def _kind(draft: Draft) -> str:
    """The field of the predictor that describes the model; empty for a container.

    Raises:
        ConversionError: There is none, or there are several.
    """
    predictor = mapping_of(draft.get(*PREDICTOR))
    found = [name for name in ("model", *FRAMEWORKS) if predictor.get(name) is not None]
    if len(found) > 1:
        raise ConversionError(f"spec.predictor has {' and '.join(found)}: must be one of them")
    if not found and not draft.items(*PREDICTOR, "containers"):
        expected = "model, a framework such as sklearn, or containers"
        raise ConversionError(f"spec.predictor has no server: must have {expected}")
    return found[0] if found else ""


def _server_position(draft: Draft) -> int:
    containers = [mapping_of(item) for item in draft.items(*PREDICTOR, "containers")]
    named = [at for at, item in enumerate(containers) if item.get("name") == _CONTAINER]
    return named[0] if named else 0


def _carry_model(draft: Draft, kind: str, name: str) -> None:
    at = (*PREDICTOR, kind)
    _carry_location(draft, (*at, "storageUri"))
    _carry_storage(draft, (*at, "storage"))
    image = draft.text(*at, "image")
    runtime = draft.text(*at, "runtime") if kind == "model" else None
    form = _carry_format(draft, kind, has_server=bool(image or runtime))
    if runtime:
        draft.put("spec.runtime.name", runtime, (*at, "runtime"))
        draft.change((*at, "runtime"), f"spec.runtime.name, which {_RUNTIME_HINT}")
    is_replaced = not (image or runtime)
    flags = _FLAGS if is_replaced and not form.takes_flags else ""
    carry_server(draft, Server(at, "spec.runtime", flags, is_replaced=is_replaced))
    if image:
        default_ports(draft, at, "spec.runtime")
        draft.tell(
            "spec.runtime.image: set spec.runtime.command and args too, if a ServingRuntime of "
            "KServe had them"
        )
    _carry_protocol(draft, at, kind, form, name)


def _carry_format(draft: Draft, kind: str, *, has_server: bool) -> ModelFormat:
    path: Path = (*PREDICTOR, kind, "modelFormat", "name")
    given = draft.text(*path) if kind == "model" else kind
    form = format_of(given) if given else None
    if form is None:
        return ModelFormat()
    if kind != "model":
        path = (*PREDICTOR, kind)
    if has_server:
        if kind == "model":
            draft.leave(path, "spec.runtime names the server")
        return form
    if form.is_bundled:
        sentence = "the bundled runtime detects the format from the files"
        if form.remark:
            sentence += f"; {form.remark}"
    else:
        draft.put("spec.model.format", form.name, path)
        sentence = f"spec.model.format {form.name}: {form.remark}"
    if kind == "model":
        draft.change(path, sentence)
    else:
        draft.tell(f"spec.predictor.{kind}: {sentence}")
    return form


def _carry_protocol(draft: Draft, at: Path, kind: str, form: ModelFormat, name: str) -> None:
    path = (*at, "protocolVersion")
    version = draft.text(*path)
    has_runtime = "name" in mapping_of(mapping_of(draft.result.get("spec")).get("runtime"))
    has_image = "image" in mapping_of(mapping_of(draft.result.get("spec")).get("runtime"))
    if version in _PROTOCOLS:
        protocol, transport = _PROTOCOLS[version]
        if version == "v1" and has_image and not has_runtime and kind != "tensorflow":
            _set_plain(draft, path, name)
            return
        draft.put("spec.protocol", protocol, path)
        if transport:
            draft.put("spec.transport", transport, path)
        draft.change(path, f"spec.protocol {protocol}")
    elif version is None and (has_image or (not form.is_bundled and not has_runtime)):
        is_llm = form.name == "huggingface"
        draft.put("spec.protocol", "OpenAI" if is_llm else "Auto")
        draft.tell(
            f"spec.protocol is {'OpenAI' if is_llm else 'Auto'}, because protocolVersion is absent"
        )


def _set_plain(draft: Draft, path: Path, name: str) -> None:
    """Query only the health of a server with version 1 of KServe's protocol.

    It differs from TensorFlow Serving's, from which it has its name.
    """
    if not name:
        draft.lose(path, "set spec.protocol None and spec.paths.ready /v1/models/NAME")
        return
    draft.put("spec.protocol", "None", path)
    draft.put("spec.paths.ready", f"/v1/models/{name}", path)
    draft.put("spec.paths.live", "/", path)
    draft.change(
        path,
        "spec.protocol None with the health paths of KServe: its servers lack the metadata "
        "of TensorFlow Serving",
    )


def _carry_custom(draft: Draft, at: Path) -> None:
    """Carry over a container that brings its own server."""
    for number, item in enumerate(draft.items(*at, "env")):
        if mapping_of(item).get("name") == "STORAGE_URI":
            path = (*at, "env", number)
            if _carry_location(draft, (*path, "value")):
                draft.leave((*path, "name"), "the operator downloads spec.model.uri")
            else:
                draft.take(*path)
    carry_server(draft, Server(at, "spec.runtime"))
    default_ports(draft, at, "spec.runtime")
    draft.put("spec.protocol", "Auto")
    draft.tell("spec.protocol is Auto: the operator detects the protocol of your server")


def _name_served(draft: Draft, at: Path, name: str) -> None:
    """Set the name that clients use, if a flag of the server has another one than the resource."""
    given = _flagged_name([*draft.items(*at, "command"), *draft.items(*at, "args")])
    spec = mapping_of(draft.result.get("spec"))
    is_long = spec.get("protocol") in {"OpenAI", "None"}
    allowed = _LONG_NAME if is_long else _NAME
    if given == name or not allowed.fullmatch(given) or len(given) > _NAME_LIMIT:
        return
    draft.put("spec.model.name", given)
    draft.tell(f"spec.model.name is {given}, as in the flags of the server")


def _flagged_name(words: list[Any]) -> str:
    """The name in a command line, "" if it has none."""
    for at, word in enumerate(words):
        flag, _, value = str(word).partition("=")
        if flag in _NAME_FLAGS:
            return value or "".join(map(str, words[at + 1 : at + 2]))
    return ""


def _carry_location(draft: Draft, path: Path) -> bool:
    """Carry over a storage URI; whether there was one."""
    text = draft.text(*path)
    if text is None or not draft.is_open(path):
        return False
    try:
        location = kserve_location(text)
    except LocationError as error:
        draft.lose(path, str(error))
        return True
    draft.put("spec.model.uri", location.uri, path)
    if location.image_volume:
        draft.put("spec.model.imageVolume", location.image_volume)
    if location.image_volume == "Never" and (pull := draft.items(*PREDICTOR, "imagePullSecrets")):
        draft.put("spec.model.credentials.secretName", mapping_of(pull[0]).get("name"))
        draft.tell("spec.model.credentials is the first pull Secret, with which KServe downloads")
    if location.change:
        draft.change(path, location.change)
    else:
        draft.take(*path)
    return True


def _carry_storage(draft: Draft, at: Path) -> None:
    """Carry over the location of a storage spec whose type and bucket are written in it."""
    kind, bucket, path = (
        draft.text(*at, *name)
        for name in (("parameters", "type"), ("parameters", "bucket"), ("path",))
    )
    if kind not in {"s3", "gs"} or not bucket:
        if draft.is_open((*at, "path")):
            draft.lose(
                (*at, "path"),
                "the store is described in a Secret of KServe: name it with --uri",
            )
        return
    uri = f"{kind}://{bucket}" + (f"/{path.strip('/')}" if path else "")
    draft.put("spec.model.uri", uri, (*at, "parameters", "bucket"))
    for name in (("parameters", "type"), ("parameters", "bucket"), ("path",)):
        draft.change((*at, *name), f"part of spec.model.uri {uri}")


def _carry_storage_uris(draft: Draft) -> None:
    at = (*PREDICTOR, "storageUris")
    items = draft.items(*at)
    is_set = "uri" in mapping_of(mapping_of(draft.result.get("spec")).get("model"))
    if len(items) != 1 or is_set:
        for number, _ in enumerate(items):
            draft.lose((*at, number), "a model has one location: combine them in one folder")
        return
    if _carry_location(draft, (*at, 0, "uri")):
        folder = draft.text(*at, 0, "mountPath")
        if folder and folder != "/mnt/models":
            draft.lose(
                (*at, 0, "mountPath"), "files are at /mnt/models: use $(MOORAGE_MODEL_PATH)"
            )
        else:
            draft.leave((*at, 0, "mountPath"), "the files are at $(MOORAGE_MODEL_PATH)")


def _override(draft: Draft, uri: str, at: Path) -> None:
    model = draft.result.get("spec", {}).get("model", {})
    if given := model.get("uri"):
        draft.tell(f"spec.model.uri is that of --uri, in place of {given}")
        if model.pop("imageVolume", "") == "Never":
            model.pop("credentials", None)  # those of the registry
    draft.put("spec.model.uri", uri)
    draft.take(*at, "storageUri")


def _metrics(draft: Draft) -> list[Mapping[str, Any]]:
    """The metrics of an autoscaler, closed in the source."""
    found: list[Mapping[str, Any]] = []
    at = (*PREDICTOR, "autoScaling", "metrics")
    marks = ("metadata", "annotations")
    named = (
        ((*PREDICTOR, "scaleMetric"), (*PREDICTOR, "scaleTarget")),
        (
            (*marks, "serving.kserve.io/metric"),
            (*marks, "serving.kserve.io/targetUtilizationPercentage"),
        ),
    )
    if not has_autoscaler(draft, PREDICTOR):
        for path in (at, *named[0], *named[1]):
            draft.leave(path, NO_AUTOSCALER)
        return []
    for number, item in enumerate(draft.items(*at)):
        metric = _metric(mapping_of(item))
        if metric is None:
            draft.lose((*at, number), "set spec.scaling.metrics to CPU, Memory or Prometheus")
        else:
            found.append(metric)
            draft.change((*at, number), f"spec.scaling.metrics: {metric['type']}")
    for name, target in named:
        found += _named_metric(draft, name, target) if not found else []
    kind = (*PREDICTOR, "scaleMetricType")
    if draft.get(*kind) == "Utilization":
        draft.leave(kind, "the targets of CPU and Memory are percentages")
    return found


def _named_metric(draft: Draft, name: Path, target: Path) -> list[Mapping[str, Any]]:
    given, value = draft.text(*name), _whole(draft.get(*target))
    if given is None and value is None:
        return []
    metric = metric_of(given or "cpu", value)
    if metric is None:
        draft.lose(name, "set a metric of type Prometheus with the rate of requests")
        draft.lose(target, f"is the target of {given}")
        return []
    sentence = f"spec.scaling.metrics: {metric['type']} with target {metric['target']}"
    draft.change(name, sentence)
    if value is None:
        draft.lose(target, "must be a whole number above 0")
    else:
        draft.change(target, sentence)
    return [metric]


def _metric(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A metric of `autoScaling`, if every part of it has an equivalent."""
    if item.get("type") == "Resource" and set(item) == {"type", "resource"}:
        return _resource_metric(mapping_of(item["resource"]))
    if item.get("type") == "External" and set(item) == {"type", "external"}:
        return _external_metric(mapping_of(item["external"]))
    return None


def _resource_metric(detail: Mapping[str, Any]) -> Mapping[str, Any] | None:
    target = mapping_of(detail.get("target"))
    value = _whole(target.get("averageUtilization"))
    is_whole = set(detail) == {"name", "target"} and set(target) == {"type", "averageUtilization"}
    is_known = target.get("type") == "Utilization" and detail.get("name") in ("cpu", "memory")
    return metric_of(detail["name"], value) if is_whole and is_known and value else None


def _external_metric(detail: Mapping[str, Any]) -> Mapping[str, Any] | None:
    target, source = mapping_of(detail.get("target")), mapping_of(detail.get("metric"))
    value = _whole(target.get("value", target.get("averageValue")))
    address, query = source.get("serverAddress"), source.get("query")
    is_whole = (
        set(detail) == {"metric", "target"}
        and set(source) == {"backend", "serverAddress", "query"}
        and set(target) in ({"type", "value"}, {"type", "averageValue"})
    )
    is_known = source.get("backend") == "prometheus" and target.get("type") in (
        "Value",
        "AverageValue",
    )
    has_texts = isinstance(address, str) and address and isinstance(query, str) and query
    if not (is_whole and is_known and has_texts and value):
        return None
    return {"type": "Prometheus", "serverAddress": address, "query": query, "target": value}


def _whole(value: Any) -> int | None:
    """A positive whole number, also as a string; None for any other value."""
    if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,8}", value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < 2**31 else None


def _carry_strategy(draft: Draft) -> None:
    at = (*PREDICTOR, "deploymentStrategy")
    kind = draft.text(*at, "type")
    if kind in {"Recreate", "RollingUpdate"}:
        draft.move((*at, "type"), "spec.rollout.strategy")
    if kind != "Recreate":
        for name in ("maxSurge", "maxUnavailable"):
            draft.move((*at, "rollingUpdate", name), f"spec.rollout.{name}")
