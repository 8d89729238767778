"""Reads from the cluster, a model server, a port of a pod or a model file.

Evaluation of what was read belongs in `judge` and `manifests`.
"""
