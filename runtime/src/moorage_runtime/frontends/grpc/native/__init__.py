"""The native gRPC transport: HTTP/2 by libnghttp2 in the event loop, gRPC on top of it here."""
