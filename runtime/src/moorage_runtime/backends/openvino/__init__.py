"""The OpenVINO backend, and readers for the TensorFlow files that it serves.

Code for other model libraries belongs elsewhere.
"""
