"""Rewrites manifests of other formats as resources of the present shape; pure.

Each source format is a module with a function from a resource to a `Conversion`; `texts` detects
the format and rewrites whole files. Formats of other projects declare their `fields` and convert
through a `draft`, which loses nothing silently. Reading and writing files belongs in `commands`.
"""
