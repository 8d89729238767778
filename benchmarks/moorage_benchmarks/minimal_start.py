"""The least start of a server that has a model: ONNX Runtime imported, the model loaded.

    python minimal_start.py MODEL_FILE

It listens nowhere and serves nothing, so it is the floor of a start and of memory at rest.
"""

import signal
import sys

import onnxruntime as ort

LOADED = "the model is loaded"


def main(path: str) -> None:
    """Load, say so, and wait for the end."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, ["CPUExecutionProvider"])
    print(LOADED, len(session.get_inputs()), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
