"""Exceptions for a model's own code; a public import path for `values.errors`."""

from moorage_runtime.values.errors import InvalidRequest

__all__ = ["InvalidRequest"]
