"""A guard against an error of OpenVINO's: shapes that do not fit pass in silence on one core.

Where OpenVINO 2026.4 runs a model on a single thread, it loses the errors of operators whose
inputs do not fit each other, and answers with what is left in its memory from the request before,
or crashes. There the shapes of all operators are worked out before a request runs. What fits or
not by the values of the inputs, not by their shapes, is not seen.
"""

import threading
from collections.abc import Sequence
from typing import Any, Final

from numpy.typing import NDArray

from moorage_runtime.backends.openvino_library import ov

# Combinations of shapes that are remembered as fitting.
_MOST_SHAPES: Final = 1024


class ShapeGuard:
    """Works out the shapes of a model's operators for given inputs, without running them.

    Args:
        model: With the dimensions that may vary.
    """

    def __init__(self, model: ov.Model) -> None:
        self._model = model.clone()
        self._fitting: set[tuple[tuple[int, ...], ...]] = set()
        self._reshaping = threading.Lock()

    def check(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Raises what the library raises for shapes that do not fit."""
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
    """The guard that a compiled model needs, None where the library checks by itself."""
    threads: int = compiled.get_property("INFERENCE_NUM_THREADS")
    return ShapeGuard(model) if threads < 2 and model.is_dynamic() else None
