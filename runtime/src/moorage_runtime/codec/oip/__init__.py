"""Messages of the Open Inference Protocol: JSON with binary parts, and protobuf.

Code that another protocol also uses belongs in `arrays` or `json`.
"""
