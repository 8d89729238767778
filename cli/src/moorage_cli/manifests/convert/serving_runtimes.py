"""ServingRuntimes and ClusterServingRuntimes of KServe as InferenceRuntimes; pure.

ServingRuntime --> **serving_runtimes** --> draft --> texts

Source: KServe, "Control Plane API Reference" (serving.kserve.io/v1alpha1), "Serving Runtimes".
"""

import re
from collections.abc import Mapping
from typing import Any

from moorage_cli.manifests.lint import Schemas

from .containers import Server, carry_pod_fields, carry_server, default_ports
from .conversion import Conversion, ConversionError
from .draft import Draft, mapping_of
from .fields import Field, Path
from .formats import format_name
from .kserve import leave_unread
from .metadata import FIELDS as METADATA
from .metadata import carry_metadata, carry_texts, set_head

__all__ = ["FIELDS", "convert_serving_runtime"]

GROUP_VERSION = "serving.kserve.io/v1alpha1"
KINDS = ("ServingRuntime", "ClusterServingRuntime")
_MESH = "Moorage has no ModelMesh: a pod serves one model"
_HIGHEST = 1000
_ENDPOINT = re.compile(r"port:([1-9][0-9]{0,4})")

FIELDS: tuple[Field, ...] = (
    *(field for field in METADATA if field.path != "metadata.namespace"),
    Field(
        "metadata.namespace",
        "spec.allowedNamespaces.selector",
        "an InferenceRuntime is cluster-scoped",
    ),
    Field("spec.supportedModelFormats.*.name", "spec.formats"),
    Field("spec.supportedModelFormats.*.priority", "spec.formats", "with autoSelect"),
    Field(
        "spec.supportedModelFormats.*.version",
        remark="a format has no version; make it part of the name of the format",
    ),
    Field("spec.supportedModelFormats.*.autoSelect", "spec.formats", "false: priority 0"),
    Field("spec.protocolVersions", "spec.protocol, spec.transport", "the best one"),
    Field("spec.containers.*.image", "spec.image"),
    Field("spec.containers.*.command", "spec.command", "{{.Name}} becomes a variable"),
    Field("spec.containers.*.args", "spec.args", "{{.Name}} becomes a variable"),
    Field("spec.containers.*.env", "spec.env"),
    Field("spec.containers.*.resources", "spec.resources"),
    Field("spec.containers.*.ports", "spec.ports"),
    Field("spec.nodeSelector", "spec.podTemplate.spec.nodeSelector", "other pod fields likewise"),
    Field("spec.labels", "spec.podTemplate.metadata.labels"),
    Field("spec.annotations", "spec.podTemplate.metadata.annotations"),
    Field("spec.httpDataEndpoint", "spec.ports.http"),
    Field("spec.grpcDataEndpoint", "spec.ports.grpc"),
    Field("spec.disabled", remark="delete the runtime, or do not name it"),
    Field("spec.multiModel", remark=_MESH),
    Field("spec.grpcEndpoint", remark=_MESH),
    Field("spec.builtInAdapter", remark=_MESH),
    Field("spec.replicas", remark="each model has its own replicas"),
    Field("spec.storageHelper", remark="the operator downloads the model"),
    Field("spec.workerSpec", remark="a model runs on one node"),
)


def convert_serving_runtime(resource: Mapping[str, Any], schemas: Schemas) -> Conversion | None:
    """Convert a runtime of KServe; None for any other resource.

    Raises:
        ConversionError: The runtime has no container.
    """
    if resource.get("kind") not in KINDS or resource.get("apiVersion") != GROUP_VERSION:
        return None
    draft = Draft(resource, FIELDS)
    set_head(draft, "InferenceRuntime")
    leave_unread(draft)
    namespace = draft.text("metadata", "namespace")
    if namespace:
        labels = {"kubernetes.io/metadata.name": namespace}
        draft.put(
            "spec.allowedNamespaces.selector", {"matchLabels": labels}, ("metadata", "namespace")
        )
        draft.change(
            ("metadata", "namespace"),
            "spec.allowedNamespaces: an InferenceRuntime is cluster-scoped, so its name must "
            "differ from those of other namespaces",
        )
    carry_metadata(draft)
    containers = draft.items("spec", "containers")
    if not containers:
        raise ConversionError("spec.containers is empty: must have the container of the server")
    names = [mapping_of(item).get("name") for item in containers]
    position = names.index("kserve-container") if "kserve-container" in names else 0
    at = ("spec", "containers", position)
    carry_server(draft, Server(at, "spec"))
    for name, kind in (("httpDataEndpoint", "http"), ("grpcDataEndpoint", "grpc")):
        found = _ENDPOINT.fullmatch(str(draft.get("spec", name)))
        if found and kind in mapping_of(mapping_of(draft.result.get("spec")).get("ports")):
            draft.lose(("spec", name), f"spec.ports.{kind} is the port of the container")
        elif found:
            draft.put(f"spec.ports.{kind}", int(found[1]), ("spec", name))
            draft.take("spec", name)
    default_ports(draft, at, "spec")
    _carry_formats(draft)
    _carry_protocols(draft)
    for name in ("disabled", "multiModel"):
        if draft.get("spec", name) is False:
            draft.leave(("spec", name), "the default")
    carry_texts(draft, ("spec", "labels"), "spec.podTemplate.metadata.labels")
    carry_texts(draft, ("spec", "annotations"), "spec.podTemplate.metadata.annotations")
    carry_pod_fields(draft, ("spec",), is_runtime=True)
    return draft.settle(schemas)


def _carry_formats(draft: Draft) -> None:
    """Carry over the formats; several versions of one are one format."""
    at: Path = ("spec", "supportedModelFormats")
    found: dict[str, int] = {}
    for number, item in enumerate(draft.items(*at)):
        own = (*at, number)
        given = draft.text(*own, "name")
        name = format_name(given) if given else ""
        if not name:
            draft.lose(own, "must have a name with a letter or a digit")
            continue
        if name == given:
            draft.take(*own, "name")
        else:
            draft.change((*own, "name"), f"{name}: names of formats are lower case")
        is_selected = mapping_of(item).get("autoSelect") is True
        priority = draft.number(*own, "priority") or 0
        if is_selected:
            draft.take(*own, "autoSelect")
            if 0 <= priority <= _HIGHEST:
                draft.take(*own, "priority")
            else:
                priority = min(max(priority, 0), _HIGHEST)
                draft.change((*own, "priority"), f"{priority}: must be from 0 to {_HIGHEST}")
        else:
            sentence = "priority 0: a model.format can select every runtime that lists it"
            draft.change((*own, "autoSelect"), sentence)
            draft.change((*own, "priority"), sentence)
            priority = 0
        found[name] = max(priority, found.get(name, 0))
    if found:
        formats = [{"name": name, "priority": priority} for name, priority in found.items()]
        draft.put("spec.formats", formats, at)


def _carry_protocols(draft: Draft) -> None:
    at: Path = ("spec", "protocolVersions")
    versions = [item for item in draft.items(*at) if isinstance(item, str)]
    for number, item in enumerate(draft.items(*at)):
        if not isinstance(item, str):
            draft.lose((*at, number), "must be a string")
    protocol, transport, sentence = "Auto", "", "the operator detects the protocol"
    if "v2" in versions:
        protocol, sentence = "OpenInference", "spec.protocol OpenInference"
    elif "grpc-v2" in versions:
        protocol, transport = "OpenInference", "GRPC"
        sentence = "spec.protocol OpenInference, spec.transport GRPC"
    elif "v1" in versions:
        sentence = (
            "spec.protocol Auto: set TensorFlowServing for that server; for servers of KServe, "
            "set None and spec.paths.ready to /v1/models/$(MOORAGE_MODEL_NAME) of each model"
        )
    draft.put("spec.protocol", protocol)
    if transport:
        draft.put("spec.transport", transport)
    draft.change(at, sentence)
