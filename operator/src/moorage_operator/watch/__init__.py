"""Reads the cluster: watches of models and children, and lookups of objects that models refer to.

Decisions and writes do not belong here. Only this package imports kopf, as the source of model
events.
"""
