"""Interprets the files of a repository: folders, versions, `model.yaml` and the resulting
metadata; pure. Reading the disk belongs in `repository`.
"""
