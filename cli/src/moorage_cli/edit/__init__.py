"""Decides how a command changes the spec of an InferenceModel, as a patch; pure.

Sending the patch belongs in `ask`.
"""
