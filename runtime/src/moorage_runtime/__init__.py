"""Moorage runtime: one process that serves models over several inference protocols."""
