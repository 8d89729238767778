"""The small model in KServe's Python server, by ONNX Runtime with one thread.

MODEL_FILE=model.onnx python serve.py --http_port=8080 --grpc_port=8081
"""

import argparse
import os
import uuid

import onnxruntime as ort
from kserve import InferOutput, InferResponse, Model, ModelServer, model_server
from kserve.utils.numpy_codec import from_np_dtype


class Small(Model):
    """Label and probabilities of four features."""

    def load(self):
        """Open the model."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(
            os.environ["MODEL_FILE"], options, providers=["CPUExecutionProvider"]
        )
        self._names = [node.name for node in self._session.get_outputs()]
        self.ready = True
        return self.ready

    async def predict(self, payload, headers=None, response_headers=None):  # noqa: ARG002 their signature
        """Every output of the model."""
        feeds = {each.name: each.as_numpy() for each in payload.inputs}
        outputs = []
        for name, array in zip(self._names, self._session.run(self._names, feeds), strict=True):
            output = InferOutput(name, list(array.shape), from_np_dtype(array.dtype))
            output.set_data_from_numpy(array, binary_data=payload.from_grpc)
            outputs.append(output)
        return InferResponse(payload.id or str(uuid.uuid4()), self.name, outputs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[model_server.parser], conflict_handler="resolve")
    parser.parse_args()
    small = Small("small")
    small.load()
    ModelServer(workers=1).start([small])
