"""Several processes that serve the same models on the same ports, as one server."""
