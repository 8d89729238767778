"""A GPU that no longer answers; an object stands in for the bytes on it."""

import numpy as np
import onnxruntime as ort
import pytest

from moorage_runtime.backends.onnx.device import Device


class Bytes:
    """Bytes on a GPU.

    Attributes:
        is_lost: Copying them fails.
        copied: What was copied to the GPU, and to which one.
    """

    is_lost = False
    copied: tuple[object, ...] = ()

    def numpy(self) -> None:
        if self.is_lost:
            raise RuntimeError(
                "CUDA failure 700: an illegal memory access was encountered ; GPU=0"
            )


@pytest.fixture
def on_gpu(monkeypatch):
    found = Bytes()

    def copy(array: np.ndarray, device: str, number: int) -> Bytes:
        found.copied = (*found.copied, array.nbytes, device, number)
        return found

    monkeypatch.setattr(ort.OrtValue, "ortvalue_from_numpy", copy)
    return found


def test_an_error_of_a_model_is_not_taken_for_a_lost_gpu(on_gpu):
    losses: list[int] = []
    device = Device(lambda: losses.append(1))
    device.begin()

    device.begin()
    device.check()

    assert losses == []
    assert on_gpu.copied == (4, "cuda", 0)


def test_a_lost_gpu_is_reported_once(on_gpu, caplog):
    losses: list[int] = []
    device = Device(lambda: losses.append(1))
    device.begin()
    on_gpu.is_lost = True

    device.check()
    device.check()

    assert losses == [1]
    (message,) = caplog.messages
    assert message == (
        "the GPU no longer answers this process: CUDA failure 700: an illegal memory access was "
        "encountered"
    )


def test_a_gpu_that_never_answered_is_no_loss(on_gpu):
    losses: list[int] = []
    on_gpu.is_lost = True

    Device(lambda: losses.append(1)).check()

    assert losses == []
