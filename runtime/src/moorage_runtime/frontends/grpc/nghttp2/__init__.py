"""The gRPC transport on libnghttp2: the library handles HTTP/2, and this package handles gRPC.

The methods that it calls belong in the frontends of the protocols.
"""
