"""Doubles its input; the end-to-end tests' model for Triton's Python backend."""

import triton_python_backend_utils as backend


class TritonPythonModel:
    """The class that the backend looks for."""

    def execute(self, requests):
        """One response for each request: y = 2x, FP32, [n, 4]."""
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        x = backend.get_input_tensor_by_name(request, "x").as_numpy()
        return backend.InferenceResponse(output_tensors=[backend.Tensor("y", 2 * x)])
