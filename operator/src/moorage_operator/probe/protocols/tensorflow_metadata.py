"""Parses TensorFlow Serving's model status and signatures; pure.

The status URL answers 200 while a model loads and after its load has failed, so the states in the
body decide. Signatures are converted to tensors with the datatypes of the Open Inference Protocol
and the names that clients use.

Source: TensorFlow Serving RESTful API, "Model status API" and "Model Metadata API";
tensorflow_serving/apis/get_model_status.proto, tensorflow/core/framework/types.proto.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from moorage_operator.probe.driver import version_not_found
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, TensorInfo
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.words import quoted, word

from . import metadata
from .metadata import NotMetadata

VERSION_LIMIT = 64
SIGNATURE = "serving_default"

# States of get_model_status.proto by number: protobuf's JSON may have the name or the number.
_STATES = {0: "UNKNOWN", 10: "START", 20: "LOADING", 30: "AVAILABLE", 40: "UNLOADING", 50: "END"}
_COMING = frozenset({"UNKNOWN", "START", "LOADING"})

_DATATYPES = {
    "DT_BOOL": "BOOL",
    "DT_UINT8": "UINT8",
    "DT_UINT16": "UINT16",
    "DT_UINT32": "UINT32",
    "DT_UINT64": "UINT64",
    "DT_INT8": "INT8",
    "DT_INT16": "INT16",
    "DT_INT32": "INT32",
    "DT_INT64": "INT64",
    "DT_HALF": "FP16",
    "DT_BFLOAT16": "BF16",
    "DT_FLOAT": "FP32",
    "DT_DOUBLE": "FP64",
    "DT_STRING": "BYTES",
}


@dataclass(frozen=True, slots=True)
class VersionStatus:
    """One version of a model: its state, and the error if its load failed."""

    version: str
    state: str
    error: str = ""


def version_statuses(document: Mapping[str, Any]) -> tuple[VersionStatus, ...] | None:
    """Parse the `model_version_status` of a status body, None if the body is something else."""
    listed: object = document.get("model_version_status")
    if not isinstance(listed, list):
        return None
    entries = cast("list[Any]", listed)[:VERSION_LIMIT]
    return tuple(_version_status(entry) for entry in entries if isinstance(entry, dict))


def judged(target: ProbeTarget, statuses: Sequence[VersionStatus]) -> Answer:
    """Judge whether the wanted version, or any version, is available."""
    if target.model_version:
        found = [status for status in statuses if status.version == target.model_version]
        if not found:
            return version_not_found(target, [status.version for status in statuses])
    else:
        found = list(statuses)
    if any(status.state == "AVAILABLE" and not status.error for status in found):
        return Answer(verdict=True, reason=AnswerReason.READY)
    for status in found:
        if status.state in _COMING:
            return _no(AnswerReason.LOADING, status, f"is in state {status.state}")
    for status in found:
        if status.error:
            return _no(AnswerReason.LOAD_FAILED, status, f"failed: {status.error}")
    if not found:
        return Answer(
            verdict=False,
            reason=AnswerReason.MODEL_NOT_FOUND,
            message=f"the server lists no version of model {target.model_name!r}",
        )
    return _no(AnswerReason.NOT_READY, found[0], f"is in state {found[0].state}")


def available(statuses: Sequence[VersionStatus]) -> list[str]:
    """Return the versions that serve requests."""
    return [each.version for each in statuses if each.state == "AVAILABLE" and not each.error]


def model_of(document: Mapping[str, Any], name: str, versions: Sequence[str]) -> ModelInfo | None:
    """Parse a metadata body, None if it is something else.

    The signature is `serving_default`, or the first one by name.
    """
    try:
        holder = metadata.mapping(document.get("metadata"))
        outer = metadata.mapping(holder.get("signature_def"))
        signatures = metadata.mapping(outer.get("signature_def"))
        chosen: object = signatures.get(SIGNATURE) or next(
            (signatures[key] for key in sorted(signatures)), None
        )
        signature = metadata.mapping(chosen)
        inputs, outputs = _tensors(signature, "inputs"), _tensors(signature, "outputs")
        return metadata.model(name, list(versions), None, inputs, outputs)
    except NotMetadata:
        return None


def _version_status(entry: Mapping[str, Any]) -> VersionStatus:
    stated: object = entry.get("state")
    state = _STATES.get(stated, "UNKNOWN") if isinstance(stated, int) else word(stated)
    status: object = entry.get("status")
    fields = cast("Mapping[str, Any]", status) if isinstance(status, dict) else {}
    error = ""
    if fields.get("error_code", "OK") not in ("OK", 0):
        error = quoted(
            word(fields.get("error_message")) or word(fields.get("error_code")) or "unknown error"
        )
    return VersionStatus(quoted(word(entry.get("version")))[:20], quoted(state)[:20], error)


def _no(reason: AnswerReason, status: VersionStatus, words: str) -> Answer:
    return Answer(verdict=False, reason=reason, message=f"version {status.version} {words}")


def _tensors(signature: Mapping[str, Any], field: str) -> tuple[TensorInfo, ...]:
    # protobuf's JSON omits an empty map.
    listed = metadata.mapping(signature.get(field) or {})
    if len(listed) > metadata.TENSOR_LIMIT:
        raise NotMetadata
    return tuple(_tensor(name, listed[name]) for name in sorted(listed))


def _tensor(name: str, value: object) -> TensorInfo:
    fields = metadata.mapping(value)
    dtype: object = fields.get("dtype")
    # A datatype without a counterpart (DT_COMPLEX64) keeps its own name.
    datatype = _DATATYPES.get(dtype, dtype) if isinstance(dtype, str) else dtype
    shape = metadata.mapping(fields.get("tensor_shape") or {})
    if shape.get("unknown_rank") is True:
        return metadata.tensor(name, datatype, None)
    dims: object = shape.get("dim") or []
    sizes = [
        cast("Mapping[str, Any]", dim).get("size", 0) if isinstance(dim, dict) else dim
        for dim in (cast("list[Any]", dims) if isinstance(dims, list) else [dims])
    ]
    return metadata.tensor(name, datatype, sizes)
