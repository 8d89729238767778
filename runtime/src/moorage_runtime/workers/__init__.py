"""Several processes that serve the same models on the same ports: the supervisor, and the
connection of a worker to it. Behaviour of a single process belongs elsewhere.
"""
