"""Serves the protocols: reads bytes, calls the dataplane, writes bytes.

Message formats belong in `codec`; packages below the dataplane must not be called from here.
"""
