"""The HTTP listener: connection handling and the plain request and response values."""
