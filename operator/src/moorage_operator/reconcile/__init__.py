"""The loop: selects the next model and reconciles it, from observation to status.

`decide` decides what to do. The packages below make the reads, writes and polls.
"""
