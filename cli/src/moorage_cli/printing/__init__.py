"""Reports, failures, tables and text that is safe for a terminal; pure.

Code that knows InferenceModels belongs elsewhere.
"""
