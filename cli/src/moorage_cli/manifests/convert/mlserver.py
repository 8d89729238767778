"""Settings of a model of MLServer (model-settings.json) as InferenceModels; pure.

model-settings.json --> **mlserver** --> draft --> texts

MLServer keeps reading the file beside the model. So only what clients and the cluster must know is
carried over, and everything else stays where it is.

Source: MLServer, "Model Settings".
"""

from collections.abc import Mapping
from typing import Any

from moorage_cli.manifests.lint import Schemas

from .conversion import Conversion
from .draft import Draft, mapping_of
from .fields import Field, Path
from .tensors import name_model, put_contract, tell_location

__all__ = ["FIELDS", "convert_mlserver", "is_mlserver"]

_KEPT = "stays in model-settings.json, which the server reads"
_TELLING = frozenset({"implementation", "parallel_workers", "max_batch_size", "max_batch_time"})
_TOP = _TELLING | {
    "name", "platform", "versions", "inputs", "outputs", "parameters", "warm_workers",
    "cache_enabled", "$schema",
}  # fmt: skip
_DATATYPES = frozenset({
    "BF16", "BOOL", "BYTES", "FP16", "FP32", "FP64", "INT16", "INT32", "INT64", "INT8", "UINT16",
    "UINT32", "UINT64", "UINT8",
})  # fmt: skip

FIELDS: tuple[Field, ...] = (
    Field("name", "metadata.name, spec.model.name"),
    Field("inputs.*.name", "spec.contract.inputs"),
    Field("inputs.*.datatype", "spec.contract.inputs"),
    Field("inputs.*.shape", "spec.contract.inputs"),
    Field("outputs.*.name", "spec.contract.outputs"),
    Field("outputs.*.datatype", "spec.contract.outputs"),
    Field("outputs.*.shape", "spec.contract.outputs"),
    Field("parameters.version", "spec.model.version"),
)


def is_mlserver(value: Mapping[str, Any]) -> bool:
    """Whether an object is the settings of a model, and not a Kubernetes object."""
    is_settings = bool(_TELLING & set(value)) and isinstance(value.get("implementation", ""), str)
    return is_settings and "apiVersion" not in value and "kind" not in value


def convert_mlserver(
    settings: Mapping[str, Any], schemas: Schemas, folder: str = "", uri: str = ""
) -> Conversion:
    """Convert the settings of a model.

    Args:
        settings: The content of model-settings.json.
        schemas: The packaged schemas.
        folder: Name of the folder that holds the file, which names a model without a name.
        uri: Location of the model's files, which the file does not have.

    Raises:
        ConversionError: The model has no name.
    """
    draft = Draft(settings, FIELDS)
    draft.put("apiVersion", "moorage.dev/v1alpha1")
    draft.put("kind", "InferenceModel")
    name_model(draft, settings.get("name") or None, ("name",), folder)
    draft.put("spec.runtime.name", "mlserver")
    draft.tell("spec.runtime.name is mlserver: install that runtime of the chart moorage-runtimes")
    tell_location(draft, uri, "the model's folder, with model-settings.json")
    version = draft.text("parameters", "version")
    if version is not None:
        draft.move(("parameters", "version"), "spec.model.version")
    for side in ("inputs", "outputs"):
        _carry_tensors(draft, side)
    for name in settings:
        draft.leave((name,), _KEPT)
    return draft.settle(schemas)


def _carry_tensors(draft: Draft, side: str) -> None:
    found: list[tuple[Mapping[str, Any], Path]] = []
    for number, item in enumerate(draft.items(side)):
        at = (side, number)
        given = mapping_of(item)
        if not isinstance(given.get("name"), str):
            draft.lose(at, "must have a name")
            continue
        tensor: dict[str, Any] = {"name": given["name"]}
        if given.get("datatype") in _DATATYPES:
            tensor["datatype"] = given["datatype"]
            draft.take(*at, "datatype")
        else:
            draft.lose((*at, "datatype"), "is not a datatype of the Open Inference Protocol")
        if isinstance(given.get("shape"), list):
            tensor["shape"] = given["shape"]
            draft.take(*at, "shape")
        draft.take(*at, "name")
        draft.leave(at, _KEPT)
        found.append((tensor, at))
    put_contract(draft, side, found)
