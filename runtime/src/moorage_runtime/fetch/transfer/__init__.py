"""Transfers files to the volume: downloads, retries, progress, unpacking and the final rename.

Code for one kind of store belongs in `stores`.
"""
