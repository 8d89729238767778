"""Fails to load; the end-to-end tests' bad model for Triton's Python backend."""


class TritonPythonModel:
    """The class that the backend looks for."""

    def initialize(self, _):
        """Fail as a model does whose weights are not there."""
        raise FileNotFoundError("weights.bin is not there")
