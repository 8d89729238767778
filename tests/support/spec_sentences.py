"""Sentences that the problems of several sections of a spec share."""

UNKNOWN = (
    "this version of the operator does not know this field: remove it or upgrade the operator"
)
DATATYPES = (
    "BF16, BOOL, BYTES, FP16, FP32, FP64, INT16, INT32, INT64, INT8, UINT16, UINT32, UINT64, UINT8"
)
