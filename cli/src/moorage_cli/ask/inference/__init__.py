"""Builds an inference request for each protocol and reads the response; pure.

Sending the request belongs in `ask`.
"""
