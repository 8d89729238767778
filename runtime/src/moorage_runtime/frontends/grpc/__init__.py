"""The gRPC listeners, their method tables and the health service.

Inference protocols belong in their own packages.
"""
