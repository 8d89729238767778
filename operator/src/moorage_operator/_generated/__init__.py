"""Message classes made by ``operator/proto/generate.py``; never edited by hand."""
