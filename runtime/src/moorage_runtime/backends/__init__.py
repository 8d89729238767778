"""Model libraries behind one interface, `base`: each turns a model's files into a loaded model.
Queues and batches belong in `execution`, the selection of a backend in `repository`.
"""
