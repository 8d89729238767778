"""Model status and metadata of TensorFlow Serving's REST API: version states and signatures.

Both documents are protobuf messages in JSON form: int64 values are strings, enumerations are
names, and defaults are included.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson

from moorage_runtime.codec.tfs.dtypes import DT_NAME
from moorage_runtime.codec.tfs.signatures import method_name, signatures_of
from moorage_runtime.values.inference import ModelMetadata, ModelStatus
from moorage_runtime.values.tensors import TensorSpec

# State in the registry to ModelVersionStatus.State. A failed load has ended with an error.
_STATES: Final[Mapping[str, str]] = MappingProxyType(
    {"LOADING": "LOADING", "READY": "AVAILABLE", "FAILED": "END", "UNLOADED": "END"}
)


def encode_status(versions: Iterable[tuple[int, ModelStatus]]) -> bytes:
    """The GetModelStatusResponse of (version number, status) pairs, highest number first."""
    ordered = sorted(versions, key=lambda pair: pair[0], reverse=True)
    return orjson.dumps(
        {"model_version_status": [_version(number, status) for number, status in ordered]}
    )


def encode_metadata(metadata: ModelMetadata, number: int) -> bytes:
    """The GetModelMetadataResponse of one version; ``number`` is its TensorFlow number.

    Raises:
        InvalidConfig: A declared signature names a tensor that the model does not have.
    """
    signatures = {
        name: {
            "inputs": {key: _tensor_info(spec) for key, spec in signature.inputs.items()},
            "outputs": {key: _tensor_info(spec) for key, spec in signature.outputs.items()},
            "method_name": method_name(signature.method),
            "defaults": {},
        }
        for name, signature in signatures_of(metadata).items()
    }
    spec = {"name": metadata.name, "signature_name": "", "version": str(number)}
    return orjson.dumps(
        {
            "model_spec": spec,
            "metadata": {"signature_def": {"signature_def": signatures}},
        }
    )


def _version(number: int, status: ModelStatus) -> dict[str, Any]:
    failed = status.state == "FAILED"
    return {
        "version": str(number),
        "state": _STATES[status.state],
        "status": {
            "error_code": "INTERNAL" if failed else "OK",
            "error_message": status.message if failed else "",
        },
    }


def _tensor_info(spec: TensorSpec) -> dict[str, Any]:
    return {
        "dtype": DT_NAME[spec.datatype],
        "tensor_shape": {
            "dim": [{"size": str(size), "name": ""} for size in spec.shape],
            "unknown_rank": False,
        },
        "name": spec.name,
    }
