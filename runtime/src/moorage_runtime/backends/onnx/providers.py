"""The execution provider of ONNX Runtime: the processor, or an NVIDIA GPU through CUDA.

    --execution-provider -> check at startup -> session -> check that the session uses it

ONNX Runtime falls back to the processor without an error if a provider cannot start. That would be
a hundred times slower, so it is refused here.
"""

import math
from typing import Any, Final

import onnxruntime as ort

from moorage_runtime.backends.onnx.graph.file import Graph
from moorage_runtime.values.errors import InvalidConfig

__all__ = [
    "CPU",
    "CUDA",
    "check_installed",
    "check_used",
    "choice",
    "merge_obstacle",
    "wrong_operator",
]

CPU: Final = "cpu"
CUDA: Final = "cuda"
_SETTING: Final = "--execution-provider"
_NAMES: Final = {CPU: "CPUExecutionProvider", CUDA: "CUDAExecutionProvider"}

Provider = tuple[str, dict[str, str]]


def choice(provider: str, *, tf32: bool) -> list[Provider]:
    """The providers of a session with their options; the processor runs what a GPU does not.

    Args:
        provider: "cpu" or "cuda".
        tf32: Let a GPU round the factors of FP32 products to 10 bits.
    """
    on_cpu: Provider = (_NAMES[CPU], {})
    if provider == CPU:
        return [on_cpu]
    options = {
        # TF32 is the default of ONNX Runtime: errors of 3e-4 of the largest value instead of 3e-7
        "use_tf32": str(int(tf32)),
        # The default tries every algorithm whenever the shape changes: 136 ms instead of 26 for
        # 16 convolutions, whose algorithms then run equally fast.
        "cudnn_conv_algo_search": "HEURISTIC",
    }
    return [(_NAMES[provider], options), on_cpu]


def merge_obstacle(graph: Graph) -> str:
    """Why merging makes a model slower on a GPU; "" if it does not.

    cuDNN prepares a convolution anew for every change of the batch size. That takes 1.5 ms, often
    longer than the run: with 16 clients, a model with 16 convolutions then answers 235 requests
    per second of an H200 instead of 1,840.
    """
    for node in graph.nodes:
        if "Conv" in node.operator:
            return f"on a GPU, operator {node.operator} is slow if the batch size changes"
    return ""


def wrong_operator(graph: Graph) -> str:
    """Which operator would answer wrongly on a GPU, and why; "" if none is known to.

    CUDA's LayerNormalization reads one element of the scale for each element that it normalizes,
    and beyond the end of a shorter scale (ONNX Operators, "LayerNormalization", broadcasts it).
    """
    for node in graph.nodes:
        if (node.domain, node.operator) != ("", "LayerNormalization"):
            continue
        scale = graph.initializers.get(node.inputs[1])
        axis = node.attributes.get("axis", -1)
        if scale is None or not isinstance(axis, int):
            continue
        if math.prod(scale.dims) == 1 or len(scale.dims) < -axis:
            return (
                f"operator {node.operator} '{node.name}' has a scale '{scale.name}' of shape "
                f"{list(scale.dims)}, which ONNX Runtime does not broadcast on a GPU: expand it "
                "to the shape that is normalized"
            )
    return ""


def check_installed(provider: str) -> None:
    """Check that this installation of ONNX Runtime has a provider, and load its libraries.

    Raises:
        InvalidConfig: It does not.
    """
    installed: list[str] = ort.get_available_providers()
    if _NAMES[provider] not in installed:
        raise InvalidConfig(
            f"{_SETTING}={provider} requires {_NAMES[provider]}, but ONNX Runtime "
            f"{ort.__version__} of this installation has only {', '.join(installed)}: use an "
            "image built with EXTRAS=gpu, or set it to cpu"
        )
    if provider == CUDA:
        # CUDA and cuDNN from NVIDIA's Python packages, if those are installed
        ort.preload_dlls()


def check_used(session: Any, provider: str) -> None:
    """Check that a session uses a provider.

    Raises:
        InvalidConfig: It fell back to the processor.
    """
    used: list[str] = session.get_providers()
    if _NAMES[provider] not in used:
        raise InvalidConfig(
            f"{_SETTING}={provider}: {_NAMES[provider]} cannot start, so ONNX Runtime would use "
            f"{', '.join(used)}: check that the container has a GPU, and CUDA and cuDNN of the "
            "versions that ONNX Runtime requires"
        )
