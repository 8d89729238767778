"""The ONNX Runtime backend.

Static analysis of ONNX graphs belongs in `graph`.
"""

import os

# ONNX Runtime sends telemetry unless this is set before its first import. A server must not
# contact third parties or store an identifier on its disk. This file runs before every module that
# imports the library.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
