"""Small boosted trees of the iris data set, one file per library."""

from collections.abc import Callable, Mapping
from pathlib import Path

import catboost
import lightgbm
import numpy as np
import xgboost
from sklearn.datasets import load_iris

__all__ = ["FLOWERS", "SPECIES", "WRITERS"]

SPECIES = ["setosa", "versicolor", "virginica"]
FLOWERS = [[5.1, 3.5, 1.4, 0.2], [6.3, 3.3, 6.0, 2.5]]
"""A setosa and a virginica."""


def _xgboost(file: Path) -> None:
    rows, labels = load_iris(return_X_y=True)
    options = {"objective": "multi:softprob", "num_class": 3, "nthread": 1}
    xgboost.train(options, xgboost.DMatrix(rows, labels), 3).save_model(file)


def _lightgbm(file: Path) -> None:
    rows, labels = load_iris(return_X_y=True)
    options = {"objective": "multiclass", "num_class": 3, "num_threads": 1, "verbosity": -1}
    lightgbm.train(options, lightgbm.Dataset(rows, labels), 3).save_model(file)


def _catboost(file: Path) -> None:
    rows, labels = load_iris(return_X_y=True)
    trees = catboost.CatBoostClassifier(
        iterations=3, thread_count=1, verbose=0, allow_writing_files=False
    )
    trees.fit(rows, np.array(SPECIES)[labels]).save_model(str(file))


WRITERS: Mapping[str, Callable[[Path], None]] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
}
"""Writes the file of a library, whose name gives the format."""
