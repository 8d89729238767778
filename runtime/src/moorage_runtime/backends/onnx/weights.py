"""Finds weights behind symbolic links, for a model that ONNX Runtime loads from memory.

ONNX Runtime reads files of weights in the folder of the model. If the model's file is a link, as
in the cache of the Hugging Face Hub, it also reads those in the folder where the link ends, but
not for a model that has been changed in memory.
"""

import contextlib
import mmap
import pathlib
from collections.abc import Mapping

from moorage_runtime.backends.onnx.graph.file import weight_files


def linked(path: pathlib.Path, data: memoryview) -> Mapping[str, mmap.mmap]:
    """The name of each file in the graph that only the link of the model allows, to its content.

    Args:
        path: The file of the model.
        data: The model.
    """
    folder, end = path.parent.resolve(), path.resolve().parent
    found: dict[str, mmap.mmap] = {}
    # ONNX Runtime reports what cannot be read
    with contextlib.suppress(IndexError, OSError, ValueError):
        for name in weight_files(data):
            target = (path.parent / name).resolve()
            if target.is_relative_to(end) and not target.is_relative_to(folder):
                with target.open("rb") as file:
                    found[name] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return found
