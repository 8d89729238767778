"""Names of model formats of other projects, and who serves them here; pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FORMATS", "ModelFormat", "format_name", "format_of"]


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """How a model of a format is served.

    Args:
        is_bundled: Whether the bundled runtime detects it from the files.
        name: Otherwise the `model.format`, which selects an InferenceRuntime.
        takes_flags: Whether that runtime is the same server, which knows the same flags.
        remark: What to know or to do.
    """

    is_bundled: bool = False
    name: str = ""
    takes_flags: bool = False
    remark: str = ""


_TABLES = "its image needs the extra tables"
_OPENVINO = "its image needs the extra openvino"
_CHART = "the chart moorage-runtimes has a runtime for it"
_OWN = "write an InferenceRuntime that lists it"

FORMATS: Mapping[str, ModelFormat] = {
    "onnx": ModelFormat(is_bundled=True),
    "sklearn": ModelFormat(
        is_bundled=True,
        remark=f"{_TABLES}; a pickle (model.joblib, model.pkl) also needs "
        "spec.model.trusted: true, which lets the file run code",
    ),
    "xgboost": ModelFormat(
        is_bundled=True,
        remark=f"{_TABLES}; rename a .bst file after its content: model.ubj or model.json",
    ),
    "lightgbm": ModelFormat(is_bundled=True, remark=f"{_TABLES}; rename a .bst file to model.txt"),
    "catboost": ModelFormat(is_bundled=True, remark=_TABLES),
    "mlflow": ModelFormat(is_bundled=True, remark=_TABLES),
    "openvino": ModelFormat(is_bundled=True, remark=_OPENVINO),
    "tensorflow": ModelFormat(is_bundled=True, remark=_OPENVINO),
    "pytorch": ModelFormat(
        name="torchscript",
        remark=f"{_CHART} (triton); a .mar archive of TorchServe has no runtime here",
    ),
    "triton": ModelFormat(name="triton", takes_flags=True, remark=_CHART),
    "tensorrt": ModelFormat(name="tensorrt", takes_flags=True, remark=f"{_CHART} (triton)"),
    "huggingface": ModelFormat(name="huggingface", remark=f"{_CHART} (vllm)"),
    "vllm": ModelFormat(name="huggingface", takes_flags=True, remark=f"{_CHART} (vllm)"),
    "paddle": ModelFormat(name="paddle", remark=f"{_CHART} (openvino-model-server)"),
    "mlserver": ModelFormat(name="mlserver", remark=_CHART),
    "python": ModelFormat(
        name="mlserver", remark=f"{_CHART} (mlserver), which loads the class of the model"
    ),
}


def format_of(name: str) -> ModelFormat | None:
    """How a format is served; an unknown one by an InferenceRuntime that the user writes.

    Returns:
        None if the name cannot be made a format.
    """
    known = FORMATS.get(name.lower())
    if known is not None:
        return known
    made = format_name(name)
    return ModelFormat(name=made, remark=_OWN) if made else None


def format_name(text: str) -> str:
    """A text as the name of a format; empty if nothing of it can be kept."""
    return re.sub(r"[^a-z0-9.-]+", "-", text.lower())[:63].strip("-.")
