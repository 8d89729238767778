"""Plain values that all packages share, such as tensors, requests, responses and errors, and
checks of them; pure. Protocols, model libraries and I/O do not belong here.
"""
