#!/usr/bin/env python3
"""Re-creates model.skops, the sample request and the ConfigMap in inferencemodel.yaml.

    pip install scikit-learn skops
    python train.py

Fits a scaler and a logistic regression on the measurements of scikit-learn's iris flowers, keeps
a fifth of the flowers out, and saves the pipeline with skops: data without code, unlike a pickle.
The same seed gives the same model.
"""

import base64
import json
import pathlib
import textwrap
import zipfile

import numpy as np
import skops.io
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

HERE = pathlib.Path(__file__).resolve().parent
SEED = 7

MANIFEST = """\
# The model's file, small enough for a ConfigMap, and the model that serves it. Made by train.py.
apiVersion: v1
kind: ConfigMap
metadata:
  name: iris
binaryData:
  model.skops: |-
{data}
---
apiVersion: moorage.dev/v1alpha1
kind: InferenceModel
metadata:
  name: iris
spec:
  model:
    uri: configmap://iris
  runtime:
    image: moorage/runtime:sklearn    # the runtime with the extra "sklearn": see README.md
"""


def main() -> None:
    """Fit, check against the held-out flowers, and write every file."""
    flowers = load_iris()
    species = flowers.target_names[flowers.target]
    known, held_out, known_species, held_out_species = train_test_split(
        flowers.data, species, test_size=0.2, random_state=SEED, stratify=species
    )
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    pipeline.fit(known, known_species)
    correct = pipeline.predict(held_out) == held_out_species
    print(f"{correct.mean():.0%} of {len(correct)} held-out flowers are right")

    skops.io.dump(pipeline, HERE / "model.skops", compression=zipfile.ZIP_DEFLATED)
    chosen = [int(np.flatnonzero(held_out_species == name)[0]) for name in flowers.target_names]
    tensor = {"name": "input-0", "shape": [len(chosen), 4], "datatype": "FP64"}
    request = {"inputs": [{**tensor, "data": held_out[chosen].tolist()}]}
    (HERE / "request.json").write_text(json.dumps(request) + "\n")
    encoded = base64.b64encode((HERE / "model.skops").read_bytes()).decode()
    data = textwrap.indent("\n".join(textwrap.wrap(encoded, 110)), "    ")
    (HERE / "inferencemodel.yaml").write_text(MANIFEST.format(data=data))


if __name__ == "__main__":
    main()
