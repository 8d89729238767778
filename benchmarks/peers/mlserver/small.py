"""The small model in MLServer, by ONNX Runtime with one thread."""

import os

import onnxruntime as ort
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Small(MLModel):
    """Label and probabilities of four features."""

    async def load(self):
        """Open the model."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(
            os.environ["MODEL_FILE"], options, providers=["CPUExecutionProvider"]
        )
        self._names = [node.name for node in self._session.get_outputs()]
        return True

    async def predict(self, payload):
        """Every output of the model."""
        feeds = {each.name: NumpyCodec.decode_input(each) for each in payload.inputs}
        arrays = self._session.run(self._names, feeds)
        outputs = [
            NumpyCodec.encode_output(name, array)
            for name, array in zip(self._names, arrays, strict=True)
        ]
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=outputs)
