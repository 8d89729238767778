"""The small model in Triton's Python backend, by ONNX Runtime with one thread."""

import os

import onnxruntime as ort
import triton_python_backend_utils as backend


class TritonPythonModel:
    """The class that the backend looks for."""

    def initialize(self, _):
        """Open the model."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(
            os.environ["MODEL_FILE"], options, providers=["CPUExecutionProvider"]
        )
        self._names = [node.name for node in self._session.get_outputs()]

    def execute(self, requests):
        """One response for each request."""
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        x = backend.get_input_tensor_by_name(request, "x").as_numpy()
        arrays = self._session.run(self._names, {"x": x})
        tensors = [
            backend.Tensor(name, array) for name, array in zip(self._names, arrays, strict=True)
        ]
        return backend.InferenceResponse(output_tensors=tensors)
