"""Batching of requests to one model."""
