"""Objects that tests apply, as plain dicts, and the digits example."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "01-digits"


def inference_model(name: str, **spec: Any) -> dict[str, Any]:
    """An InferenceModel."""
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": name},
        "spec": spec,
    }


def digits(name: str = "digits", **spec: Any) -> dict[str, Any]:
    """The digits model from a ConfigMap `digits-files`, probed every second."""
    spec.setdefault("health", {"periodSeconds": 1})
    return inference_model(name, model={"uri": "configmap://digits-files"}, **spec)


def config_map(name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """A ConfigMap with binary files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "binaryData": {key: base64.b64encode(data).decode() for key, data in files.items()},
    }


def secret(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    """A Secret of plain texts."""
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(values)}


def digits_files() -> dict[str, Any]:
    """The ConfigMap with the example's ONNX file."""
    return config_map("digits-files", {"model.onnx": (DIGITS / "model.onnx").read_bytes()})


def sample(expected: int) -> dict[str, Any]:
    """The request for the held-out picture of a digit."""
    return json.loads((DIGITS / "samples" / f"digit-{expected}.json").read_text())
