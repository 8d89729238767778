"""Decides the conditions and all other fields of the status.

`plan` and `rollout` decide which objects exist and which revision runs. Pure.
"""
