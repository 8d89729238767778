"""Bounded decoding of data from untrusted servers, with accounting of its CPU time.

Connections belong to `transport`, and the formats of a single protocol to `protocols`.
"""
