"""Access to the Kubernetes API: client, credentials, reflectors, managed fields and leadership.

The packages above decide what to read and write. Only this package imports the HTTP client for the
API server.
"""
