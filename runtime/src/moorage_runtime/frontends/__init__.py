"""Protocol frontends: bytes in, dataplane, bytes out."""
