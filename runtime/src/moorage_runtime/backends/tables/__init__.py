"""Backends of models of tables: scikit-learn, XGBoost, LightGBM, CatBoost and MLflow folders.

One module per file format reads the file and describes its columns. ``layout`` turns request
tensors into a matrix or a data frame, ``model`` runs a library and turns its answers into tensors.
"""

from typing import Final

# The name of a matrix in the documentation of KServe and MLServer.
INPUT_NAME: Final = "input-0"
