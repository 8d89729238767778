"""A GPU on a machine without one: it keeps nothing, so that a load gets as far as its session."""

from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.onnx.device import Device


class AbsentGpu(Device):
    """Keeps no bytes on a GPU."""

    def begin(self) -> None:
        """Keep nothing."""


def on_absent_gpu() -> OnnxBackend:
    """The backend of such a GPU."""
    return OnnxBackend(AbsentGpu(lambda: None))
