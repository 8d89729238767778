"""Reads an ONNX graph and proves whether it processes each row of a batch independently; pure.

Running a model belongs in `backends.onnx`.
"""
