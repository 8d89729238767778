"""Decides the objects, status and polls of one model from observations; `plan` is the entry point.

Reading the cluster, writing to it and querying model servers do not belong here. Pure: no clock,
no network, no disk.
"""
