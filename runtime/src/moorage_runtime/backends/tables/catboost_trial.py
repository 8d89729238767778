"""Loads a CatBoost model in a process of its own first, and predicts some rows with it.

    open file --> try_loading --> [child: main] --> how it ended --> backends.tables.catboost

CatBoost does not check the structure of its files. Of single wrong bytes, one in a hundred or so
makes it read outside of its memory, or allocate gigabytes, which ends the process. In the server
that would end all models; a trial takes half a second of CPU time per load. The child also
predicts, since some damage shows only then. It gets the open file rather than the name, so a file
that is replaced in the meantime is not loaded untried. A file that is written in place is refused.
"""

import importlib
import os
import random
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, Final

from moorage_runtime.backends.containment import sentence_of

__all__ = ["path_of", "try_loading"]

TIMEOUT_SECONDS: Final = 120.0

_MEMORY_BYTES: Final = 1 << 30
_MEMORY_TIMES: Final = 8
"""The child may use 1 GiB and eight times the size of the file; a sound model needs twice its
size."""

_ROWS: Final = 200
_SEED: Final = 1
_NUMBERS: Final = (
    0.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e-3,
    -1e-3,
    1.0,
    -1.0,
    1e9,
    -1e9,
)


def path_of(file: FileIO) -> str:
    """A path of an open file, also for a child that inherits it; on macOS, its position counts."""
    return f"/dev/fd/{file.fileno()}"


def try_loading(file: FileIO, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Load a model in a child.

    Args:
        file: The model's file; its position changes.
        timeout_seconds: For the import of the library, the load and the predictions.

    Raises:
        ValueError: The child could not load the model, crashed or did not end, so the server must
            not load it.
    """
    file.seek(0)
    try:
        done = subprocess.run(  # noqa: S603 - the same program
            # without the modules of the current folder, as in the server
            [sys.executable, "-P", "-m", __name__, path_of(file)],
            # Threads that are never used would count as its memory.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            pass_fds=(file.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem = f"did not end within {timeout_seconds:g} s: save or download the file again"
        raise ValueError(f"a process that loaded it on trial {problem}") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        problem = f"was ended by {name}: the file is damaged: save or download it again"
        raise ValueError(f"a process that loaded it on trial {problem}")
    if done.returncode:
        lines = done.stdout.decode(errors="replace").split("\n")
        raise ValueError(next(filter(None, reversed(lines)), "it cannot be loaded"))


def main() -> None:
    """Load the model of the first argument, and predict random rows."""
    path = sys.argv[1]
    memory = _MEMORY_BYTES + _MEMORY_TIMES * Path(path).stat().st_size
    with suppress(ValueError):  # a smaller limit holds already
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    try:
        catboost: Any = importlib.import_module("catboost")
        model = catboost.CatBoost().load_model(path)
    except Exception as error:  # noqa: BLE001 - the parent reports it
        print(sentence_of(error))  # noqa: T201 - what the parent reads
        sys.exit(1)
    with suppress(Exception):  # a model may refuse NaN or texts
        model.predict(_rows(model), thread_count=1)


def _rows(model: Any) -> list[list[float | str]]:
    """Random rows with numbers of all sizes."""
    words = {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
    draw = random.Random(_SEED)  # noqa: S311 - rows of a trial
    columns = range(len(model.feature_names_))
    return [
        ["" if column in words else draw.choice(_NUMBERS) * draw.random() for column in columns]
        for _ in range(_ROWS)
    ]


if __name__ == "__main__":
    main()
