"""Decides which revision runs and how a rollout or canary proceeds.

The state of a single pod is decided in `pods`, and what the status says about a rollout in
`status`. Pure.
"""
