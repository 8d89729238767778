"""Limits on the expansion of a request: compressed bodies, JSON and protobuf messages.

The meaning of the content belongs in the other packages of `codec`.
"""
