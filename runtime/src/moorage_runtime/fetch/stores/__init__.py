"""One class per kind of store, which lists a model's files and builds the requests for them.

Downloading and unpacking belong in `transfer`.
"""
