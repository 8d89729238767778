"""Reads digits from grey pictures: pre-processing, an ONNX model, and post-processing."""

import numpy as np
import onnxruntime

from moorage_runtime.backends.python import PythonModel
from moorage_runtime.errors import InvalidRequest

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class DigitReader(PythonModel):
    """Takes pictures whose sides are multiples of 8 pixels, and answers with words."""

    inputs = [("picture", "UINT8", [-1, -1, -1])]
    outputs = [("word", "BYTES", [-1]), ("confidence", "FP32", [-1])]

    def load(self, context):
        """Load the network that lies beside this file."""
        self.least = context.parameters.get("least_confidence", 0.5)
        self.network = onnxruntime.InferenceSession(str(context.folder / "digits.onnx"))

    def predict(self, inputs, request):
        """Shrink the pictures, recognize them, and translate the answer."""
        image = shrink(inputs["picture"])
        (probabilities,) = self.network.run(["probabilities"], {"image": image})
        best, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
        words = [
            WORDS[digit] if sure >= self.least else "unreadable"
            for digit, sure in zip(best, confidence, strict=True)
        ]
        return {
            "word": np.array([word.encode() for word in words], object),
            "confidence": confidence,
        }


def shrink(pictures):
    """Pictures of 8 by 8 pixels from 0 to 16: each pixel is the mean of a square."""
    count, height, width = pictures.shape
    if height % 8 or width % 8 or not height or not width:
        raise InvalidRequest(f"picture has {height} by {width} pixels: must be multiples of 8")
    squares = pictures.reshape(count, 8, height // 8, 8, width // 8)
    return (squares.mean(axis=(2, 4)) / 255 * 16).astype(np.float32)
