"""The command `moorage`, which shows the state of InferenceModels in a cluster and explains
failures. Only the entry point and the wiring of the commands live outside the packages.
"""
