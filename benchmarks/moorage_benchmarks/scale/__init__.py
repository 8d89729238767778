"""The operator at scale: a real API server, fake nodes, thousands of answering pods."""
