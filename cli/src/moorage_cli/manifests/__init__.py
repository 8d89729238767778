"""Checks manifests against the packaged CRD, as an API server does; pure.

The state of running models belongs in `judge`.
"""
