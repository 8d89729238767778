"""Converts bytes to the types in `values` and back, for every protocol; pure.

Sockets, threads and routing belong in `frontends`.
"""
