"""Limits on the shape of a tensor, for JSON and protobuf messages. Pure.

Source: OIP "Tensor Data" leaves the limits to the server. These ensure that the product of the
dimensions cannot overflow.
"""

from collections.abc import Sequence
from typing import Final

from moorage_runtime.values.errors import InvalidRequest

# numpy's own limit on the number of dimensions.
RANK_LIMIT: Final = 64
# End of the address range, which is also numpy's limit on a dimension.
_SIZE_END: Final = 2**63
# No element is wider; BYTES elements are pointers in memory.
_WIDEST_BYTES: Final = 8


def check(dims: Sequence[int], path: str) -> tuple[int, ...]:
    """The dimensions as a shape.

    Args:
        dims: Integers from the request.
        path: Path of the shape in the request, for messages.

    Raises:
        InvalidRequest: A dimension is negative, or there are too many dimensions or elements.
    """
    if len(dims) > RANK_LIMIT:
        raise InvalidRequest(f"{path} has {len(dims)} dimensions: must have {RANK_LIMIT} or fewer")
    size = _WIDEST_BYTES
    for index, dim in enumerate(dims):
        if dim < 0:
            raise InvalidRequest(
                f"{path}[{index}]: {dim} is invalid: must be an integer of 0 or more"
            )
        size *= dim or 1
        if size >= _SIZE_END:
            raise InvalidRequest(
                f"{path}: the product of dimensions 0 to {index} is too large for a tensor"
            )
    return tuple(dims)
