"""A damaged CatBoost file does not end the server."""

import os
import subprocess
import sys
from io import FileIO
from pathlib import Path

import catboost
import numpy as np
import pytest

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.tables import catboost as catboost_backend
from moorage_runtime.backends.tables import catboost_trial
from moorage_runtime.backends.tables.catboost import CatboostBackend
from moorage_runtime.values.errors import InvalidConfig

SEARCH = """
import os, sys
import catboost

path, copy = sys.argv[1:]
content = open(path, "rb").read()
for at in range(len(content) - 1, 7, -1):  # from the end, which holds the structure
    with open(copy, "wb") as file:
        file.write(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            catboost.CatBoost().load_model(copy).predict([[0.0, 0.0]], thread_count=1)
        finally:
            os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0:
        print(at)
        break
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("catboost") / "model.cbm"
    draw = np.random.default_rng(1)
    library = catboost.CatBoostRegressor(
        iterations=3,
        depth=2,
        random_seed=1,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    library.fit(draw.normal(size=(60, 2)), draw.normal(size=60)).save_model(str(path))
    return path


def test_a_file_that_crashes_the_library_is_refused(model, tmp_path):
    damaged = tmp_path / "model.cbm"
    command = [sys.executable, "-c", SEARCH, model, damaged]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert found.stdout, "no byte of this file crashes this version of CatBoost"

    with pytest.raises(
        InvalidConfig, match=r"^model\.cbm is not a valid CatBoost model: .* was ended by SIG"
    ):
        CatboostBackend().load(ModelSource("m", "1", damaged))


def test_an_error_of_the_library_is_reported_in_its_words(tmp_path):
    path = tmp_path / "model.cbm"
    path.write_bytes(b"CBM1\x08\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff")

    with FileIO(path) as file, pytest.raises(ValueError, match="CatBoostError: "):
        catboost_trial.try_loading(file)


def test_a_load_without_end_is_ended(model):
    with FileIO(model) as file, pytest.raises(ValueError, match=r"did not end within 0\.01 s"):
        catboost_trial.try_loading(file, timeout_seconds=0.01)


def test_a_sound_file_passes(model):
    with FileIO(model) as file:
        catboost_trial.try_loading(file)


def test_a_file_that_is_replaced_during_the_trial_is_not_loaded(model, tmp_path, monkeypatch):
    path = tmp_path / "model.cbm"
    path.write_bytes(model.read_bytes())

    def tried_then_replaced(file: FileIO) -> None:
        catboost_trial.try_loading(file)
        other = tmp_path / "other"
        other.write_bytes(b"untried")
        other.replace(path)

    monkeypatch.setattr(catboost_backend, "try_loading", tried_then_replaced)

    loaded = CatboostBackend().load(ModelSource("m", "1", path))

    assert loaded.inputs


@pytest.mark.parametrize("step", ["try_loading", "_loaded"])
def test_a_file_that_is_written_in_place_is_refused(step, model, tmp_path, monkeypatch):
    path = tmp_path / "model.cbm"
    path.write_bytes(model.read_bytes())
    do = getattr(catboost_backend, step)

    def done_then_written(*arguments):
        result = do(*arguments)
        path.write_bytes(model.read_bytes())  # to the same file
        os.utime(path, ns=(0, 0))  # the clock of a file system may not have advanced
        return result

    monkeypatch.setattr(catboost_backend, step, done_then_written)

    with pytest.raises(InvalidConfig, match=r"written while it was loaded: .* and rename it"):
        CatboostBackend().load(ModelSource("m", "1", path))
