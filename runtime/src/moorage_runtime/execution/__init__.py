"""Runs a loaded model for many concurrent requests: threads, the queue and the memory budget.

Finding and loading models belongs in `repository`, calling a model library in `backends`.
"""
