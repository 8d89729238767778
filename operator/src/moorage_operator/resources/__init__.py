"""Builders of the child objects: the same model and configuration give the same bytes.

`decide` decides which children exist, and in which revision. Pure.
"""
