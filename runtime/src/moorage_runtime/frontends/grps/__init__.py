"""GRPS over HTTP and gRPC, with the status page and the custom paths of Python models.

Its messages belong in `codec.grps`.
"""
