"""TensorFlow Serving's REST API.

Its documents belong in `codec.tfs`.
"""
