"""Message classes made by ``runtime/proto/generate.py``; never edited by hand."""
