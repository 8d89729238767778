"""The execution provider of ONNX Runtime: the processor, or an NVIDIA GPU through CUDA.

    --execution-provider -> check at startup -> session -> check that the session uses it

ONNX Runtime falls back to the processor without an error if a provider cannot start. That would be
a hundred times slower, so it is refused here.
"""

from typing import Any, Final

import onnxruntime as ort

from moorage_runtime.values.errors import InvalidConfig

__all__ = ["CPU", "check_installed", "check_used", "names"]

CPU: Final = "cpu"
_CUDA: Final = "cuda"
_SETTING: Final = "--execution-provider"
_NAMES: Final = {CPU: "CPUExecutionProvider", _CUDA: "CUDAExecutionProvider"}


def names(provider: str) -> list[str]:
    """The providers of a session; the processor runs what a GPU does not support."""
    return list(dict.fromkeys([_NAMES[provider], _NAMES[CPU]]))


def check_installed(provider: str) -> None:
    """Check that this installation of ONNX Runtime has a provider, and load its libraries.

    Raises:
        InvalidConfig: It does not.
    """
    installed: list[str] = ort.get_available_providers()
    if _NAMES[provider] not in installed:
        raise InvalidConfig(
            f"{_SETTING}={provider} requires {_NAMES[provider]}, but ONNX Runtime "
            f"{ort.__version__} of this installation has only {', '.join(installed)}: install "
            "onnxruntime-gpu of the same version, or set it to cpu"
        )
    if provider == _CUDA:
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
