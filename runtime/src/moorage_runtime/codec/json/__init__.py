"""Parses JSON by the rules that the HTTP protocols share, with a fast path for long lists of
numbers. The meaning of the values belongs in `arrays` and the packages of the protocols.
"""  # noqa: A005 - never imported by its last name alone
