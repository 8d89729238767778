"""The limits of a tensor's shape, the same in JSON and in protobuf messages. Pure.

Source: OIP "Tensor Data" leaves the limits to the server; these keep the product of the
dimensions from overflowing wherever it is computed later.
"""

import math
from collections.abc import Sequence
from typing import Final

from moorage_runtime.errors import InvalidRequest

# numpy's own limit on the number of dimensions.
RANK_LIMIT: Final = 64
# A tensor whose bytes cannot be addressed; also what numpy takes for a dimension.
_SIZE_LIMIT: Final = 2**63 - 1
# No element is wider; BYTES elements are pointers in memory.
_WIDEST_BYTES: Final = 8


def check(dims: Sequence[int], path: str) -> tuple[int, ...]:
    """The dimensions as a shape.

    Args:
        dims: Integers from the request.
        path: Where the shape stands in the request, for messages.

    Raises:
        InvalidRequest: A dimension is negative, or a tensor cannot have so many dimensions or
            elements.
    """
    size = _WIDEST_BYTES
    for index, dim in enumerate(dims):
        if dim < 0:
            raise InvalidRequest(f"{path}[{index}]: {dim} is no integer of 0 or more")
        size *= dim or 1
    if size > _SIZE_LIMIT or len(dims) > RANK_LIMIT:
        raise InvalidRequest(
            f"{path}: {len(dims)} dimensions of {math.prod(dims)} elements are more than a "
            "tensor can have"
        )
    return tuple(dims)
