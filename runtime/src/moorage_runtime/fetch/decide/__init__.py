"""Decisions about a download: URIs, file lists, signatures, redirects, archive members and
failures; pure. Requests and files belong in the other packages of `fetch`.
"""
