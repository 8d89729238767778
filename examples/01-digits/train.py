#!/usr/bin/env python3
"""Re-creates model.onnx, the sample requests and the ConfigMap in inferencemodel.yaml.

    pip install scikit-learn onnx
    python train.py

Trains a small neural network on scikit-learn's handwritten digits (1,797 pictures of 8 by 8
pixels, each 0 to 16), keeps a tenth of them out, and writes the network as an ONNX graph:

    image FP32 [-1, 8, 8]  ->  label INT64 [-1], probabilities FP32 [-1, 10]

The samples are pictures that the network has not seen. The same seed gives the same model.
"""

import base64
import json
import pathlib
import textwrap

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

HERE = pathlib.Path(__file__).resolve().parent
SEED = 7
HIDDEN = 32
BRIGHTEST = 16.0
SAMPLES = (0, 3, 7, 8)

MANIFEST = """\
# The model's file, small enough for a ConfigMap, and the model that serves it.
# Made by train.py.
apiVersion: v1
kind: ConfigMap
metadata:
  name: digits
binaryData:
  model.onnx: |-
{data}
---
apiVersion: moorage.dev/v1alpha1
kind: InferenceModel
metadata:
  name: digits
spec:
  model:
    uri: configmap://digits
"""


def main() -> None:
    """Train, check against the held-out pictures, and write every file."""
    pictures, labels = load_digits(return_X_y=True)
    known, held_out, known_labels, held_out_labels = train_test_split(
        pictures, labels, test_size=0.1, random_state=SEED, stratify=labels
    )
    network = MLPClassifier((HIDDEN,), max_iter=800, random_state=SEED)
    network.fit(known / BRIGHTEST, known_labels)
    correct = network.predict(held_out / BRIGHTEST) == held_out_labels
    print(f"{correct.mean():.1%} of {len(correct)} held-out pictures are right")

    model = as_onnx(network)
    onnx.save(model, HERE / "model.onnx")
    for digit in SAMPLES:
        index = int(np.flatnonzero(correct & (held_out_labels == digit))[0])
        write_sample(digit, held_out[index])
    encoded = base64.b64encode(model.SerializeToString()).decode()
    data = textwrap.indent("\n".join(textwrap.wrap(encoded, 110)), "    ")
    (HERE / "inferencemodel.yaml").write_text(MANIFEST.format(data=data))


def as_onnx(network: MLPClassifier) -> onnx.ModelProto:
    """The network as a graph: scale, flatten, two dense layers, softmax, the likeliest label."""
    nodes = [
        helper.make_node("Div", ["image", "brightest"], ["scaled"]),
        helper.make_node("Flatten", ["scaled"], ["row"]),
        helper.make_node("Gemm", ["row", "weights0", "bias0"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "weights1", "bias1"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0),
    ]
    constants = {"brightest": np.float32(BRIGHTEST)}
    for layer, (weights, bias) in enumerate(zip(network.coefs_, network.intercepts_, strict=True)):
        constants[f"weights{layer}"] = weights.astype(np.float32)
        constants[f"bias{layer}"] = bias.astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 8, 8])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    return model


def write_sample(digit: int, pixels: np.ndarray) -> None:
    """One Open Inference Protocol request, named after the digit that it shows."""
    request = {
        "inputs": [
            {
                "name": "image",
                "shape": [1, 8, 8],
                "datatype": "FP32",
                "data": pixels.tolist(),
            }
        ]
    }
    (HERE / "samples").mkdir(exist_ok=True)
    (HERE / "samples" / f"digit-{digit}.json").write_text(json.dumps(request) + "\n")


if __name__ == "__main__":
    main()
