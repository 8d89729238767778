"""The ONNX Runtime backend.

Static analysis of ONNX graphs belongs in `graph`.
"""
