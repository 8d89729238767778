"""The Open Inference Protocol over HTTP and gRPC, with the model repository extension.

Its messages belong in `codec.oip`.
"""
