"""Message classes, generated from runtime/proto by `make generate`."""
