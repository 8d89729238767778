"""Backends: one library each behind one protocol."""
