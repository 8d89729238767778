"""A device for machines without a GPU: it reserves nothing, so a load proceeds to its session."""

from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.onnx.device import Device


class AbsentGpu(Device):
    """Reserves no GPU memory."""

    def begin(self) -> None:
        """Reserve nothing."""


def on_absent_gpu() -> OnnxBackend:
    """Return a backend that uses this device."""
    return OnnxBackend(AbsentGpu(lambda: None))
