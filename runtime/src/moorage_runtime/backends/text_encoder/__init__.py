"""Encoders in the layout of the Hugging Face Hub: a tokenizer beside an ONNX graph.

Text becomes labels or embeddings. The graph runs in `backends.onnx`; other formats of weights do
not belong here.
"""
