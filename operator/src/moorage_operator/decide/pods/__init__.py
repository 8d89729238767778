"""Decides the state of each pod, its readiness gate, and how to poll its server.

What the state of the pods means for the model and its rollout is decided in `status` and
`rollout`. Pure.
"""
