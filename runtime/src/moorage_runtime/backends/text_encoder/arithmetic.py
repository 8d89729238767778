"""Computes scores and embeddings from the output of an encoder; pure.

All functions take and return float32.
"""

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.backends.text_encoder.description import Pooling, Scores

__all__ = ["normalized", "pooled", "scored"]

Floats = NDArray[np.float32]


def scored(logits: Floats, scores: Scores) -> Floats:
    """Scores of each label.

    Shapes: logits and result are (texts, labels).
    """
    if scores is Scores.NONE:
        return logits
    if scores is Scores.SIGMOID:
        # by the side that does not overflow
        small = np.exp(-np.abs(logits))
        return np.where(logits >= 0, 1 / (1 + small), small / (1 + small)).astype(np.float32)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def pooled(tokens: Floats, count: int, pooling: Pooling) -> Floats:
    """The embedding of each text from those of its tokens.

    Args:
        tokens: Embeddings; the texts have equally many tokens, and padding may follow.
        count: Number of tokens of each text, without padding.
        pooling: How they are combined.

    Shapes: tokens (texts, tokens, size), result (texts, size).
    """
    own = tokens[:, :count]
    if pooling is Pooling.CLS:
        return own[:, 0]
    return own.max(axis=1) if pooling is Pooling.MAX else own.mean(axis=1, dtype=np.float32)


def normalized(embeddings: Floats) -> Floats:
    """Embeddings of length 1; zero stays zero. Shapes: (texts, size)."""
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings / np.maximum(lengths, np.float32(1e-12))
