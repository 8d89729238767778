"""The HTTP listener, its request and response values, and `/metrics`.

Inference protocols belong in their own packages.
"""  # noqa: A005 - never imported by its last name alone
