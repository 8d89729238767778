"""Dynamic batching: requests that wait for a model run together, along their first dimension."""
