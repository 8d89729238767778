"""Generates every committed file that other files of the repository determine: `make generate`.

Each module makes the files of one kind and writes nothing; `files` brings them together.
"""
