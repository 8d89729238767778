"""Messages of GRPS as JSON and protobuf, and their mapping to a model's tensors.

Code that another protocol also uses belongs in `arrays` or `json`.
"""
