"""Documents and paths of TensorFlow Serving's REST API.

Code that another protocol also uses belongs in `arrays` or `json`.
"""
