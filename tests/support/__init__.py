"""Shared parts of several kinds of tests: waiting for conditions, driving kubectl."""
