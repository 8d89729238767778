"""A tiny model of tables: tables_model.py LIBRARY FOLDER.

Runs in the environment build/runtimes. The model answers 1 for rows whose first
value is above 1.5, and 0 (or a number below one half) for others.
"""

import sys
from pathlib import Path

import joblib
import lightgbm
import numpy as np
import xgboost
from sklearn.tree import DecisionTreeClassifier

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]] * 20)
Y = (X[:, 0] > 1.5).astype(int)


def write(library: str, folder: Path) -> None:
    """Train the model and write it under the name that MLServer looks for."""
    if library == "sklearn":
        joblib.dump(DecisionTreeClassifier(random_state=0).fit(X, Y), folder / "model.joblib")
    elif library == "xgboost":
        xgboost.XGBClassifier(n_estimators=5).fit(X, Y).save_model(folder / "model.json")
    else:
        options = {"objective": "binary", "min_data_in_leaf": 1, "verbose": -1}
        lightgbm.train(options, lightgbm.Dataset(X, Y), 50).save_model(folder / "model.bst")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
