"""The model server: one or more processes that serve models over several inference protocols.

Only the entry point, the wiring and the public imports for a model's own code are outside the
packages.
"""
