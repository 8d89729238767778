"""Connections to model servers: one HTTP request or gRPC call with limits on size and time.

Paths and messages of a protocol belong to `protocols`. The package is not called `http` because
that is a module of the standard library.
"""
