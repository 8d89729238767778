"""The local page of `moorage ui`: a server on loopback, and the files that a browser gets.

What a request does in the cluster belongs in `commands`, which passes it in as functions.
"""
