"""The InferenceModel resource as frozen values; imports nothing else of this package."""
