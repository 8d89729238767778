"""GRPS's metadata: YAML texts about the server and a model. Pure.

The keys are those of other GRPS servers' configuration files, if they apply here. Paths of the
server's disk are not included.

Source: GRPS interface, "metadata".
"""

from collections.abc import Sequence
from typing import Any

import yaml

from moorage_runtime.values.inference import ModelMetadata, ModelStatus, ServerMetadata
from moorage_runtime.values.tensors import TensorSpec


def encode_server(
    metadata: ServerMetadata, statuses: Sequence[ModelStatus], default_model: str | None
) -> str:
    """Metadata of the server and its models as YAML."""
    nodes = [{"name": "node-1", "type": "model", "model": default_model}] if default_model else []
    return _dump(
        {
            "name": metadata.name,
            "version": metadata.version,
            "interface": {"framework": "http+grpc"},
            "models": [_describe(status) for status in statuses],
            "dag": {"type": "sequential", "nodes": nodes},
        }
    )


def encode_model(status: ModelStatus, metadata: ModelMetadata | None) -> str:
    """Metadata of one version of a model as YAML.

    Args:
        status: Its state.
        metadata: Its metadata, or None if it is not loaded.
    """
    document = _describe(status)
    if metadata is not None:
        document["inferer_type"] = metadata.platform
        document["batching"] = metadata.batching
        document["inputs"] = list(map(_describe_tensor, metadata.inputs))
        document["outputs"] = list(map(_describe_tensor, metadata.outputs))
    return _dump(document)


def _describe(status: ModelStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "version": status.version,
        "ready": status.state == "READY",
    }


def _describe_tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": str(spec.datatype), "shape": list(spec.shape)}


def _dump(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
