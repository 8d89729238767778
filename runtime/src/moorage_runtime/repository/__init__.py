"""The models that the server knows: it scans the disk, loads models and tracks the state of each
version. Running a model belongs in `execution`.
"""
