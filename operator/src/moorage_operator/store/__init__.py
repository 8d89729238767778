"""What the process knows about the cluster: parsed objects, poll results and existing models.

It sends no requests and decides nothing; `watch` and `probe` update it, and `reconcile` reads it.
"""
