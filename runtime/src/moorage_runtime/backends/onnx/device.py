"""Detects that this process can no longer use its GPU.

    failed run or load -> Device.check -> copy from the GPU fails -> lost() -> the server ends

After some errors, such as an invalid access of any code in the process, every call of CUDA fails
until the process ends (CUDA Runtime API, "cudaError"). The server would stay ready and answer each
request with an error, so it ends and is restarted.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort

from moorage_runtime.backends.onnx import error_text

__all__ = ["Device"]

log = logging.getLogger(__name__)


class Device:
    """The GPU that the sessions of this process use.

    Args:
        lost: Called once, in any thread, when the GPU no longer answers.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._lock = threading.Lock()
        self._mark: Any = None
        self._is_lost = False

    def begin(self) -> None:
        """Keep a few bytes on the GPU, for later checks; raises what ONNX Runtime raises."""
        with self._lock:
            if self._mark is None:
                self._mark = ort.OrtValue.ortvalue_from_numpy(np.zeros(1, np.float32), "cuda", 0)

    def check(self) -> None:
        """Copy these bytes back after an error, and report the GPU as lost if that fails."""
        with self._lock:
            if self._mark is None or self._is_lost:
                return
            try:
                self._mark.numpy()
            except Exception as error:  # noqa: BLE001 - whatever it is, the GPU does not answer
                self._is_lost = True
                log.error(  # noqa: TRY400 - a trace of this module says nothing
                    "the GPU no longer answers this process: %s", error_text.text_of(error)
                )
                self._lost()
