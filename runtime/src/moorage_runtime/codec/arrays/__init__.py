"""Converts tensor elements to arrays and back for every protocol: JSON lists, binary data, shapes
and small integers. The messages that contain them belong in the packages of the protocols.
"""
