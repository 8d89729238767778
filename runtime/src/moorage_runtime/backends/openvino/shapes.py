"""Works around an OpenVINO bug: on one core, invalid shapes cause no error.

If OpenVINO 2026.4 runs a model on a single thread, it loses the errors of operators whose input
shapes do not match, and returns data of an earlier request, or crashes. In this case, the shapes
of all operators are computed before a request runs. Mismatches that depend on the values of inputs
are not detected.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final

from numpy.typing import NDArray

from moorage_runtime.backends.openvino.library import ov

# Number of valid combinations of shapes to cache.
_MOST_SHAPES: Final = 1024


class ShapeGuard:
    """Computes the shapes of a model's operators for given inputs, without running them.

    Args:
        model: The model with its variable dimensions.
    """

    def __init__(self, model: ov.Model) -> None:
        self._model = model.clone()
        self._fitting: set[tuple[tuple[int, ...], ...]] = set()
        self._reshaping = threading.Lock()

    def check(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Check shapes; raises the library's exceptions for invalid ones."""
        shapes = tuple(array.shape for array in arrays)
        if shapes in self._fitting:
            return
        with self._reshaping:
            self._model.reshape(
                {index: ov.PartialShape(list(shape)) for index, shape in enumerate(shapes)}
            )
            if len(self._fitting) >= _MOST_SHAPES:
                self._fitting.clear()
            self._fitting.add(shapes)


def guard_of(model: ov.Model, compiled: ov.CompiledModel) -> ShapeGuard | None:
    """The guard for a compiled model, or None if the library checks shapes itself."""
    threads: int = compiled.get_property("INFERENCE_NUM_THREADS")
    return ShapeGuard(model) if threads < 2 and model.is_dynamic() else None
