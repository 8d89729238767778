"""Values for a model's own code; a public import path for `values.inference`."""

from moorage_runtime.values.inference import HttpCall, HttpReply, InferRequest

__all__ = ["HttpCall", "HttpReply", "InferRequest"]
