"""Models of Seldon Core 2 (mlops.seldon.io/v1alpha1) as InferenceModels; pure.

Model --> **seldon** --> draft --> texts

A Server of Seldon serves many models. Here each model has pods of its own.

Source: Seldon Core 2, "Models", "Resources: Model", "Servers".
"""

from collections.abc import Mapping
from typing import Any

from moorage_cli.manifests.lint import Schemas

from .conversion import Conversion
from .draft import Draft, mapping_of
from .fields import Field
from .formats import format_of
from .locations import LocationError, rclone_location
from .metadata import FIELDS as METADATA
from .metadata import carry_metadata, set_head
from .scaling import NO_AUTOSCALER, carry_replicas, has_autoscaler, request_cpu

__all__ = ["FIELDS", "convert_seldon"]

GROUP_VERSION = "mlops.seldon.io/v1alpha1"
CPU_REQUEST = "500m"
_DOWNLOADED = ("s3://", "gs://", "azblob://", "hf://", "oci://", "https://")

FIELDS: tuple[Field, ...] = (
    *METADATA,
    Field("spec.storageUri", "spec.model.uri", "not a remote of an rclone configuration"),
    Field(
        "spec.secretName",
        "spec.model.credentials.secretName",
        "with the keys of the store in place of an rclone configuration",
    ),
    Field("spec.artifactVersion", "spec.model.version"),
    Field(
        "spec.requirements",
        "spec.model.format",
        "not needed for the formats of the bundled runtime",
    ),
    Field("spec.modelType", "spec.model.format", "as a requirement"),
    Field("spec.server", "spec.runtime.name", "an InferenceRuntime"),
    Field("spec.memory", "spec.runtime.resources.requests.memory"),
    Field("spec.replicas", "spec.replicas, spec.suspend", "0: suspend true"),
    Field("spec.minReplicas", "spec.replicas, spec.scaling.minReplicas"),
    Field("spec.maxReplicas", "spec.scaling.maxReplicas"),
    Field("spec.schemaUri", remark="write the tensors into spec.contract"),
    Field(
        "spec.parameters",
        remark="write them into model-settings.json beside the model, or into spec.runtime.env",
    ),
    Field("spec.logger", remark="log requests at your gateway or in the client"),
    Field("spec.explainer", remark="serve the explainer as a model of its own"),
    Field("spec.llm", remark="see the guide for servers with the API of OpenAI"),
    Field("spec.dataflow", remark="Moorage has no pipelines over Kafka"),
    Field("spec.preloaded", remark="set spec.runtime.image to an image that contains the model"),
    Field("spec.dedicated", remark="each model has pods of its own"),
)


def convert_seldon(
    resource: Mapping[str, Any], schemas: Schemas, uri: str = ""
) -> Conversion | None:
    """Convert a Model; None for any other resource."""
    if resource.get("kind") != "Model" or resource.get("apiVersion") != GROUP_VERSION:
        return None
    draft = Draft(resource, FIELDS)
    set_head(draft, "InferenceModel")
    carry_metadata(draft)
    _carry_location(draft, uri)
    version = draft.number("spec", "artifactVersion")
    if version is not None:
        draft.put("spec.model.version", str(version), ("spec", "artifactVersion"))
        draft.take("spec", "artifactVersion")
    _carry_server(draft)
    if draft.get("spec", "memory") is not None:
        draft.put(
            "spec.runtime.resources.requests.memory", draft.get("spec", "memory"),
            ("spec", "memory"),
        )  # fmt: skip
        draft.change(
            ("spec", "memory"),
            "spec.runtime.resources.requests.memory: add what the server itself needs",
        )
    _carry_scale(draft)
    for name in ("dedicated", "preloaded"):
        if draft.get("spec", name) is (name == "dedicated"):
            draft.leave(("spec", name), "each model has pods of its own")
    request_cpu(draft, CPU_REQUEST)
    return draft.settle(schemas)


def _carry_location(draft: Draft, uri: str) -> None:
    text = draft.text("spec", "storageUri")
    if uri:
        draft.put("spec.model.uri", uri)
        draft.change(("spec", "storageUri"), f"{uri}, the location of --uri")
    elif text is not None:
        try:
            draft.put("spec.model.uri", rclone_location(text).uri, ("spec", "storageUri"))
            draft.take("spec", "storageUri")
        except LocationError as error:
            draft.lose(("spec", "storageUri"), str(error))
    secret = draft.text("spec", "secretName")
    location = mapping_of(mapping_of(draft.result.get("spec")).get("model")).get("uri", "")
    if secret and location.startswith(_DOWNLOADED):
        draft.put("spec.model.credentials.secretName", secret, ("spec", "secretName"))
        draft.change(
            ("spec", "secretName"),
            "spec.model.credentials: the Secret must have the keys of the store, such as "
            "AWS_ACCESS_KEY_ID, in place of an rclone configuration",
        )
    elif secret:
        draft.lose(("spec", "secretName"), "only a downloaded model has credentials")


def _carry_server(draft: Draft) -> None:
    """Choose the server: the named one, or the one of the first known requirement."""
    server = draft.text("spec", "server")
    if server:
        draft.put("spec.runtime.name", server, ("spec", "server"))
        draft.change(
            ("spec", "server"),
            "spec.runtime.name, which must exist as an InferenceRuntime: install the chart "
            "moorage-runtimes",
        )
    named = [("spec", "modelType")]
    named += [
        ("spec", "requirements", at) for at in range(len(draft.items("spec", "requirements")))
    ]
    chosen = False
    for path in named:
        requirement = draft.text(*path)
        if requirement is None:
            continue
        form = format_of(requirement)
        if server:
            draft.leave(path, "spec.runtime names the server")
        elif chosen or form is None:
            draft.lose(path, "a model has one format; the InferenceRuntime decides what it needs")
        elif form.is_bundled:
            chosen = True
            sentence = "the bundled runtime detects the format from the files"
            draft.change(path, sentence + (f"; {form.remark}" if form.remark else ""))
        else:
            chosen = True
            draft.put("spec.model.format", form.name, path)
            draft.change(path, f"spec.model.format {form.name}: {form.remark}")


def _carry_scale(draft: Draft) -> None:
    replicas = draft.number("spec", "replicas")
    if replicas == 0:
        draft.put("spec.suspend", value=True, origin=("spec", "replicas"))
        draft.change(("spec", "replicas"), "spec.suspend true")
    elif replicas is not None and not has_autoscaler(draft, ("spec",)):
        draft.leave(("spec", "minReplicas"), NO_AUTOSCALER)
        draft.leave(("spec", "maxReplicas"), NO_AUTOSCALER)
    carry_replicas(draft, ("spec",), [])
    spec = draft.result.get("spec", {})
    if "scaling" in spec:
        draft.leave(("spec", "replicas"), "an autoscaler sets the replicas")
    else:
        draft.move(("spec", "replicas"), "spec.replicas")
