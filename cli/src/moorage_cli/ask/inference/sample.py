"""Makes a sample request from a model's metadata, and the curl command that sends it; pure.

metadata of the server or the status --> Tensor --> Open Inference request --> curl command

The values are only meant to be accepted. Whoever uses the model replaces them.
"""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

__all__ = [
    "SAMPLE_LIMIT_VALUES",
    "SampleTensor",
    "curl",
    "describe",
    "sample_request",
    "sample_tensors",
]

TEXT = "some text"
FRACTION = 0.5
WHOLE = 1
# About 20 MB of JSON. A server can declare any size, and the values are all in memory.
SAMPLE_LIMIT_VALUES = 1 << 22
FRACTIONS = frozenset({"FP16", "FP32", "FP64"})


@dataclass(frozen=True, slots=True)
class SampleTensor:
    """One tensor of the metadata; a negative size means any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    @property
    def sizes(self) -> list[int]:
        """The shape with 1 for any size."""
        return [size if size >= 0 else 1 for size in self.shape]


def sample_tensors(listed: object) -> list[SampleTensor]:
    """The tensors of a list of the metadata, without those that are incomplete."""
    found: list[SampleTensor] = []
    for item in cast("list[Any]", listed) if isinstance(listed, list) else []:
        fields = cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
        name, datatype, shape = (fields.get(each) for each in ("name", "datatype", "shape"))
        sizes = cast("list[Any]", shape) if isinstance(shape, list) else [None]
        # protocols whose JSON has 64-bit integers as strings have them here too
        known = [int(size) for size in sizes if isinstance(size, int | str) and _is_whole(size)]
        if isinstance(name, str) and isinstance(datatype, str) and len(known) == len(sizes):
            found.append(SampleTensor(name, datatype, tuple(known)))
    return found


def sample_request(inputs: Sequence[SampleTensor]) -> dict[str, Any] | None:
    """An Open Inference request with one row of plausible values.

    None if it is too large, or has the datatype BF16, which JSON lacks.
    """
    if any(each.datatype == "BF16" for each in inputs):
        return None
    if sum(math.prod(each.sizes) for each in inputs) > SAMPLE_LIMIT_VALUES:
        return None
    return {
        "inputs": [
            {
                "name": each.name,
                "shape": each.sizes,
                "datatype": each.datatype,
                "data": [_value(each.datatype)] * math.prod(each.sizes),
            }
            for each in inputs
        ]
    }


def curl(url: str, body: Mapping[str, Any] | None, file: str = "") -> str:
    """The command that sends a request, from a file if one is named; as pasted into a shell."""
    data = f"@{file}" if file else json.dumps(body, ensure_ascii=False)
    return (
        f"curl -s {shlex.quote(url)} -H 'Content-Type: application/json' "
        f"--data-binary {shlex.quote(data)}"
    )


def describe(tensors: Sequence[SampleTensor]) -> str:
    """The tensors on one line, such as `image FP32 [-1,8,8]`."""
    shown = [f"{each.name} {each.datatype} [{','.join(map(str, each.shape))}]" for each in tensors]
    return ", ".join(shown) or "not declared"


def _value(datatype: str) -> str | float | bool:
    if datatype == "BYTES":
        return TEXT
    if datatype == "BOOL":
        return True
    return FRACTION if datatype in FRACTIONS else WHOLE


def _is_whole(size: int | str) -> bool:
    return str(size).removeprefix("-").isdecimal()
