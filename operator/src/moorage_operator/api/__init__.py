"""The vocabulary of the InferenceModel API: the parsed spec, names, labels and conditions.

What is observed in a cluster or computed from a spec belongs to the packages above. Pure.
"""
