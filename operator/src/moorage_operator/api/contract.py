"""`spec.contract`: the tensors that clients rely on.

`decide.pods.contract` compares them with a model's metadata.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from .fields import Fields

__all__ = ["Contract", "ContractPolicy", "DeclaredTensor", "parse_contract", "parse_shape"]

TENSOR_LIMIT = 256
RANK_LIMIT = 32
VARIABLE = -1
DIMENSIONS = range(VARIABLE, 2**63)
DIMENSIONS_EXPECTED = f"a list of at most {RANK_LIMIT} sizes, such as [-1, 4]; -1 means any size"

# Source: Open Inference Protocol V2, "Tensor Data Types", and BF16, which servers use as well.
DATATYPES = frozenset(
    {
        "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
        "FP16", "FP32", "FP64", "BF16", "BYTES",
    }
)  # fmt: skip


class ContractPolicy(StrEnum):
    """Effect of a difference: none, a condition and an event, or no traffic."""

    IGNORE = "Ignore"
    WARN = "Warn"
    ENFORCE = "Enforce"


@dataclass(frozen=True, slots=True)
class DeclaredTensor:
    """A tensor that clients send or expect.

    An empty datatype and a shape of None are not compared. A dimension of -1 matches any size.
    """

    name: str
    datatype: str = ""
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Contract:
    """`spec.contract`. Without tensors, nothing is compared."""

    policy: ContractPolicy = ContractPolicy.WARN
    inputs: tuple[DeclaredTensor, ...] = ()
    outputs: tuple[DeclaredTensor, ...] = ()

    @property
    def is_compared(self) -> bool:
        """Whether metadata is compared with the contract."""
        return self.policy is not ContractPolicy.IGNORE and bool(self.inputs or self.outputs)

    @property
    def is_enforced(self) -> bool:
        """Whether a replica that breaks the contract gets no traffic."""
        return self.is_compared and self.policy is ContractPolicy.ENFORCE


def parse_contract(fields: Fields) -> Contract:
    """Read the contract and fill in its defaults; record invalid values as problems."""
    contract = Contract(
        policy=fields.choice("policy", ContractPolicy.WARN),
        inputs=_parse_tensors(fields, "inputs"),
        outputs=_parse_tensors(fields, "outputs"),
    )
    fields.unknown()
    return contract


def _parse_tensors(fields: Fields, name: str) -> tuple[DeclaredTensor, ...]:
    listed = fields.items(name)
    if len(listed) > TENSOR_LIMIT:
        fields.reject_length(name, len(listed), TENSOR_LIMIT, "tensors")
        return ()
    found: dict[str, DeclaredTensor] = {}
    for item in listed:
        tensor = _parse_tensor(item)
        if tensor.name in found:
            fields.reject_duplicate(name, tensor.name)
        found[tensor.name] = tensor
    return tuple(found.values())


def _parse_tensor(fields: Fields) -> DeclaredTensor:
    name, datatype = fields.text("name"), fields.text("datatype")
    if not name:
        fields.require("name", "the name of a tensor")
    if datatype and datatype not in DATATYPES:
        fields.reject("datatype", datatype, f"one of {', '.join(sorted(DATATYPES))}")
    shape = parse_shape(fields, DIMENSIONS, DIMENSIONS_EXPECTED)
    tensor = DeclaredTensor(name, datatype, shape)
    fields.unknown()
    return tensor


def parse_shape(fields: Fields, sizes: range, expected: str) -> tuple[int, ...] | None:
    """Read the shape of a tensor; None if it is absent, or invalid and recorded as a problem.

    Args:
        fields: The tensor.
        sizes: The valid sizes.
        expected: What the shape must be, for the message.
    """
    value = fields.raw("shape")
    if value is None:
        return None
    shape: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [None]
    if len(shape) > RANK_LIMIT or not all(_is_size(each, sizes) for each in shape):
        fields.reject("shape", value, expected)
        return None
    return tuple(shape)


def _is_size(value: Any, sizes: range) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in sizes
