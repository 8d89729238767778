"""Selects the waiting requests that run together, merges them and splits the response; pure.

Threads, queues and clocks belong in `execution`.
"""
