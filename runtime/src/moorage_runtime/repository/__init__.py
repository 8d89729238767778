"""The model repository: layout on disk, loading, and what is loaded."""
