"""Writes to the cluster: children, statuses and events, and the repair of external changes.

`decide` decides what to write; nothing here depends on replicas or conditions.
"""
