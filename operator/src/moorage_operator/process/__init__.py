"""Parts of a long-running process: lifecycle, health server, logs and metrics.

Reconciling models does not belong here; `app` connects the packages.
"""
