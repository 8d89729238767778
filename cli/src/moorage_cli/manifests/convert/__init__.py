"""Rewrites manifests of other formats as InferenceModels of the present shape; pure.

Each module is one source format, with a function from a resource to a `Conversion`; `texts` lists
the formats and rewrites whole files. Reading and writing files belongs in `commands`.
"""
