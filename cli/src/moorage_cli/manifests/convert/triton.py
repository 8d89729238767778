"""Model configurations of Triton (config.pbtxt) as InferenceModels; pure.

config.pbtxt --> textproto --> **triton** --> draft --> texts

Triton keeps reading the file beside the model. So only what clients and the cluster must know is
carried over, and everything else stays where it is.

Source: Triton, "Model Configuration", ModelConfig of model_config.proto.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from moorage_cli.manifests.lint import Schemas

from .conversion import Conversion
from .draft import Draft
from .fields import Field, Path
from .tensors import name_model, put_contract, tell_location
from .textproto import Symbol, parse_text

__all__ = ["FIELDS", "convert_triton", "is_triton"]

# Fields of ModelConfig that no Kubernetes object and no other format here has at its top.
_TELLING = (
    "platform", "backend", "max_batch_size", "input", "output", "instance_group",
    "dynamic_batching", "sequence_batching", "ensemble_scheduling", "default_model_filename",
    "version_policy", "model_warmup", "optimization", "model_transaction_policy",
)  # fmt: skip
_TOP = (
    *_TELLING, "name", "runtime", "batch_input", "batch_output", "cc_model_filenames",
    "metric_tags", "parameters", "model_operations", "model_repository_agents", "response_cache",
    "model_metrics", "model_build_info",
)  # fmt: skip
_FIRST = re.compile(r"(?:\s|#[^\n]*\n)*([a-z_]+)\s*[:{\[<]")
_TELLS = re.compile(rf"^[ \t]*(?:{'|'.join(_TELLING)})\s*[:{{\[<]", re.MULTILINE)
_KUBERNETES = re.compile(r"^[ \t]*['\"]?apiVersion['\"]?\s*:", re.MULTILINE)
_REPEATED = frozenset({"input", "output", "dims", "instance_group", "gpus"})
_GPU_ONLY = ("tensorrt_plan", "tensorrt", "tensorrtllm")
_KEPT = "stays in config.pbtxt, which the server reads"
_TYPES: Mapping[str, str] = {
    f"TYPE_{name}": name
    for name in (
        "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
        "FP16", "FP32", "FP64", "BF16",
    )
} | {"TYPE_STRING": "BYTES"}  # fmt: skip

FIELDS: tuple[Field, ...] = (
    Field("name", "metadata.name, spec.model.name"),
    Field("input.*.name", "spec.contract.inputs"),
    Field("input.*.data_type", "spec.contract.inputs"),
    Field("input.*.dims", "spec.contract.inputs", "with -1 first if max_batch_size is above 0"),
    Field("output.*.name", "spec.contract.outputs"),
    Field("output.*.data_type", "spec.contract.outputs"),
    Field("output.*.dims", "spec.contract.outputs", "with -1 first if max_batch_size is above 0"),
    Field("platform", "spec.runtime.resources.limits", "tensorrt_plan: a GPU"),
    Field("backend", "spec.runtime.resources.limits", "tensorrt, tensorrtllm: a GPU"),
    Field("instance_group.*.kind", "spec.runtime.resources.limits", "KIND_GPU: GPUs"),
    Field("instance_group.*.gpus", "spec.runtime.resources.limits", "their number"),
    Field(
        "ensemble_scheduling",
        remark="the runtime of the chart gives Triton one model; serve the models of the steps "
        "and call them in turn, or write an InferenceRuntime for a folder with all of them",
    ),
)


def is_triton(text: str) -> bool:
    """Whether a text looks like a config.pbtxt, and not like YAML with Kubernetes objects."""
    first = _FIRST.match(text)
    return bool(
        first and first[1] in _TOP and _TELLS.search(text) and not _KUBERNETES.search(text)
    )


def convert_triton(text: str, schemas: Schemas, folder: str = "", uri: str = "") -> Conversion:
    """Convert a model configuration.

    Args:
        text: The content of config.pbtxt.
        schemas: The packaged schemas.
        folder: Name of the folder that holds the file, which names a model without a name.
        uri: Location of the model's files, which the file does not have.

    Raises:
        TextError: The text is not in the text format.
        ConversionError: The model has no name.
    """
    config = cast("Mapping[str, Any]", _plain(parse_text(text)))
    draft = Draft(config, FIELDS)
    draft.put("apiVersion", "moorage.dev/v1alpha1")
    draft.put("kind", "InferenceModel")
    name_model(draft, _single(draft, "name"), ("name",), folder)
    draft.put("spec.runtime.name", "triton")
    draft.tell("spec.runtime.name is triton: install that runtime of the chart moorage-runtimes")
    tell_location(draft, uri, "the model's folder, with config.pbtxt and its versions")
    size = _single(draft, "max_batch_size")
    is_batched = isinstance(size, int) and size > 0
    for side in ("input", "output"):
        _carry_tensors(draft, side, is_batched=is_batched)
    _carry_gpus(draft)
    draft.lose(("ensemble_scheduling",))
    if "sequence_batching" in config:
        draft.tell(
            "sequence_batching: the requests of a sequence must reach the same replica, but the "
            "Service spreads them: keep spec.replicas at 1"
        )
    for name in config:
        draft.leave((name,), _KEPT)
    return draft.settle(schemas)


def _plain(value: Any) -> Any:
    """The message as JSON values: `true` and `false` as booleans, names of enums as strings.

    A field that occurs once has its value, unless it is one of the repeated ones read here.
    """
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, list[Any]]", value).items()
        return {
            name: _plain(items[0])
            if len(items) == 1 and name not in _REPEATED
            else [_plain(item) for item in items]
            for name, items in fields
        }
    if isinstance(value, Symbol):
        return {"true": True, "false": False}.get(value, str(value))
    return value


def _single(draft: Draft, *path: str | int) -> Any:
    """The value of a field that is not repeated: the last one counts."""
    value = draft.get(*path)
    return value[-1] if isinstance(value, list) and value else value


def _carry_tensors(draft: Draft, side: str, *, is_batched: bool) -> None:
    found: list[tuple[Mapping[str, Any], Path]] = []
    for number, _ in enumerate(draft.items(side)):
        at = (side, number)
        name = _single(draft, *at, "name")
        if not isinstance(name, str):
            draft.lose(at, "must have a name")
            continue
        tensor: dict[str, Any] = {"name": name}
        datatype = _TYPES.get(str(_single(draft, *at, "data_type")))
        if datatype:
            tensor["datatype"] = datatype
            draft.change((*at, "data_type"), f"spec.contract: {datatype}")
        else:
            draft.lose((*at, "data_type"), "is not a datatype of the Open Inference Protocol")
        dims = draft.items(*at, "dims")
        if _single(draft, *at, "is_shape_tensor") is True:
            draft.leave((*at, "dims"), _KEPT)
        elif dims:
            tensor["shape"] = [-1, *dims] if is_batched else dims
            if is_batched:
                draft.change((*at, "dims"), f"spec.contract: {tensor['shape']}, with the batch")
            else:
                draft.take(*at, "dims")
        draft.take(*at, "name")
        draft.leave(at, _KEPT)
        found.append((tensor, at))
    put_contract(draft, f"{side}s", found)


def _carry_gpus(draft: Draft) -> None:
    """Request the GPUs of the instance groups, or the one that TensorRT always needs."""
    gpus: set[int] = set()
    why = next(
        (
            f"{field} is {name}"
            for field in ("platform", "backend")
            if (name := _single(draft, field)) in _GPU_ONLY
        ),
        "",
    )
    for number, _ in enumerate(draft.items("instance_group")):
        at = ("instance_group", number)
        if _single(draft, *at, "kind") == "KIND_GPU":
            places = [(*at, "gpus", place) for place, _ in enumerate(draft.items(*at, "gpus"))]
            gpus |= {gpu for each in places if (gpu := draft.number(*each)) is not None}
            why = "instance_group has KIND_GPU"
    if not why:
        return
    count = max(1, len(gpus))
    draft.put("spec.runtime.resources.limits[nvidia.com/gpu]", count)
    draft.tell(f"spec.runtime.resources.limits has nvidia.com/gpu: {count}, because {why}")
