"""Codecs: wire bytes to InferRequest and InferResponse to wire bytes; pure."""
