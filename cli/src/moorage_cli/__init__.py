"""The command `moorage`: asks a cluster about its InferenceModels, in words that help.

A resource is read once (`cluster`), becomes frozen values (`model_view`), and pure modules
(`status`, `why`, `lint`, `traffic`, `conformance`) make a `Report` of them, which `__main__`
prints.
"""
