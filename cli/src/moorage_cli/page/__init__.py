"""The page of `moorage ui` and `moorage ui-server`: a server, and the files that a browser gets.

What a request does in the cluster belongs in `commands`, which passes it in as functions.
"""
