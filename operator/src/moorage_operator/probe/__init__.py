"""Queries the model server of each replica: liveness, readiness, metadata and smoke tests.

`decide` decides what an answer means for the model; requests to the API server belong to `kube`.
"""
