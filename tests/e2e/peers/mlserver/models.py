"""Two models for MLServer: one doubles its input, one fails to load."""

from mlserver import MLModel
from mlserver.types import InferenceResponse, ResponseOutput


class Doubler(MLModel):
    """y = 2x, FP32, [n, 4]."""

    async def load(self):
        """Nothing to load."""
        return True

    async def predict(self, payload):
        """One output of the input's shape."""
        x = payload.inputs[0]
        output = ResponseOutput(
            name="y", shape=x.shape, datatype=x.datatype, data=[2 * value for value in x.data]
        )
        return InferenceResponse(model_name=self.name, outputs=[output])


class Broken(MLModel):
    """A model whose weights are not there."""

    async def load(self):
        """Fail."""
        raise FileNotFoundError("weights.bin is not there")
