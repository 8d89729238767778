#!/usr/bin/env python3
"""Regenerates model/1, a TensorFlow SavedModel, and the sample request.

    pip install tensorflow-cpu scikit-learn
    python examples/04-tensorflow-savedmodel/train.py

Trains a small convolutional network on scikit-learn's handwritten digits (1,797 pictures of 8 by
8 pixels, each 0 to 16), holds out a tenth of them, and saves it with one signature:

    image FP32 [-1, 8, 8]  ->  label INT64 [-1], probabilities FP32 [-1, 10]
"""

import json
import pathlib
import shutil

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = pathlib.Path(__file__).resolve().parent
SEED = 7
BRIGHTEST = 16.0
CHANNELS = 8
STEPS = 600
LEARNING_RATE = 1.0
SAMPLE = 3


class Network(tf.Module):
    """One convolution, one dense layer."""

    def __init__(self) -> None:
        super().__init__()
        random = tf.random.Generator.from_seed(SEED)
        self.kernel = tf.Variable(random.normal([3, 3, 1, CHANNELS], stddev=0.3))
        self.weights = tf.Variable(random.normal([6 * 6 * CHANNELS, 10], stddev=0.1))
        self.bias = tf.Variable(tf.zeros([10]))

    def logits(self, image: tf.Tensor) -> tf.Tensor:
        """Scores of the ten digits."""
        scaled = tf.expand_dims(image / BRIGHTEST, -1)
        active = tf.nn.relu(tf.nn.conv2d(scaled, self.kernel, strides=1, padding="VALID"))
        flat = tf.reshape(active, [-1, 6 * 6 * CHANNELS])
        return flat @ self.weights + self.bias

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8], tf.float32, name="image")])
    def serve(self, image: tf.Tensor) -> dict[str, tf.Tensor]:
        """The signature."""
        probabilities = tf.nn.softmax(self.logits(image))
        return {"label": tf.argmax(probabilities, 1), "probabilities": probabilities}


def train(network: Network, pictures: tf.Tensor, labels: tf.Tensor) -> None:
    """Plain gradient descent over all pictures at once."""
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=labels, logits=network.logits(pictures)
                )
            )
        variables = network.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(LEARNING_RATE * gradient)


def main() -> None:
    """Train, check against the held-out pictures, and write every file."""
    pictures, labels = load_digits(return_X_y=True)
    pictures = pictures.reshape(-1, 8, 8).astype(np.float32)
    known, held_out, known_labels, held_out_labels = train_test_split(
        pictures, labels, test_size=0.1, random_state=SEED, stratify=labels
    )
    network = Network()
    train(network, tf.constant(known), tf.constant(known_labels))
    correct = network.serve(held_out)["label"].numpy() == held_out_labels
    print(f"{correct.mean():.1%} of {len(correct)} held-out pictures are classified correctly")

    shutil.rmtree(HERE / "model", ignore_errors=True)
    tf.saved_model.save(network, str(HERE / "model" / "1"), signatures=network.serve)
    index = int(np.flatnonzero(correct & (held_out_labels == SAMPLE))[0])
    request = {"instances": held_out[index : index + 1].tolist()}
    (HERE / "request.json").write_text(json.dumps(request) + "\n")


if __name__ == "__main__":
    main()
