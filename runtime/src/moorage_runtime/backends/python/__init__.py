"""Models written as a Python class, run in the server's process or in a separate one.

A model's own code imports only `PythonModel`; everything else is internal.
"""

from moorage_runtime.backends.python.model import PythonModel

__all__ = ["PythonModel"]
