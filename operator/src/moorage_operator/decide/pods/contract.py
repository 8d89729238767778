"""Compares the tensors of a contract with a model's metadata and describes differences; pure.

    replicas --> contract.difference (one replica) --> conditions: MetadataMatched
             `-> contract.disagreement (among replicas)

A contract is kept if the model accepts every request that it allows, and if it allows every answer
of the model. So a declared input may be narrower than the served one, and a declared output may be
wider, but not vice versa.
"""

from collections.abc import Iterable, Mapping, Sequence

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.api.contract import TENSOR_LIMIT, VARIABLE, Contract, DeclaredTensor
from moorage_operator.values.answers import ModelInfo, TensorInfo

__all__ = ["difference", "disagreement"]

# How many versions of a model are read.
VERSION_LIMIT = 64
# A message is shorter than the names of a wide model.
NAMES_LIMIT = 64

# In the order in which they are reported.
ORDER = (
    Reason.INPUT_MISSING,
    Reason.OUTPUT_MISSING,
    Reason.DATATYPE_MISMATCH,
    Reason.SHAPE_MISMATCH,
)


def difference(contract: Contract, info: ModelInfo | None) -> Finding | None:
    """Return the differences from the contract, None if there are none.

    Args:
        contract: A contract with at least one tensor.
        info: The model's metadata; None if its server exposes none.
    """
    if info is None:
        sentence = (
            "the server exposes no metadata for the model, or some that the operator does not "
            f"read: at most {TENSOR_LIMIT} inputs and outputs, and {VERSION_LIMIT} versions"
        )
        return Finding(Reason.METADATA_UNSUPPORTED, sentence)
    if not info.inputs and not info.outputs:
        return Finding(Reason.METADATA_UNSUPPORTED, "the model's metadata has no tensors")
    found = [
        *_sides("input", contract.inputs, info.inputs, Reason.INPUT_MISSING),
        *_undeclared(contract.inputs, info.inputs),
        *_sides("output", contract.outputs, info.outputs, Reason.OUTPUT_MISSING),
    ]
    if not found:
        return None
    found.sort(key=lambda finding: ORDER.index(finding.reason))
    return Finding(found[0].reason, "; ".join(finding.message for finding in found))


def disagreement(by_pod: Mapping[str, ModelInfo]) -> Finding | None:
    """Return a finding if replicas of one revision have different tensors."""
    pods = sorted(by_pod)
    for pod in pods[1:]:
        first, other = by_pod[pods[0]], by_pod[pod]
        for kind, mine, theirs in (
            ("inputs", first.inputs, other.inputs),
            ("outputs", first.outputs, other.outputs),
        ):
            if set(mine) != set(theirs):
                sentence = f"pod {pods[0]} has {kind} {_listed(mine)}, but pod {pod} has "
                return Finding(Reason.REPLICAS_DISAGREE, f"{sentence}{_listed(theirs)}")
    return None


def _sides(
    kind: str,
    declared: Sequence[DeclaredTensor],
    served: Sequence[TensorInfo],
    missing: Reason,
) -> Iterable[Finding]:
    by_name = {tensor.name: tensor for tensor in served}
    has = _names(by_name)
    for tensor in declared:
        found = by_name.get(tensor.name)
        if found is None:
            yield Finding(missing, f"{kind} {tensor.name} is missing: the model has {has}")
            continue
        if tensor.datatype and tensor.datatype != found.datatype:
            words = f"datatype {tensor.datatype} declared, {found.datatype} served"
            yield Finding(Reason.DATATYPE_MISMATCH, f"{kind} {tensor.name}: {words}")
        if not _fits(kind, tensor.shape, found.shape):
            words = f"shape {_shape(tensor.shape)} declared, {_shape(found.shape)} served"
            yield Finding(Reason.SHAPE_MISMATCH, f"{kind} {tensor.name}: {words}")


def _names(served: Iterable[str]) -> str:
    names = sorted(served)
    more = [f"and {len(names) - NAMES_LIMIT} more"] if len(names) > NAMES_LIMIT else []
    return ", ".join(names[:NAMES_LIMIT] + more) or "none"


def _undeclared(
    declared: Sequence[DeclaredTensor], served: Sequence[TensorInfo]
) -> Iterable[Finding]:
    """Find inputs that the model requires and the contract does not declare."""
    if not declared:
        return
    names = {tensor.name for tensor in declared}
    for tensor in served:
        if tensor.name not in names:
            words = "the model requires it, but the contract does not declare it"
            yield Finding(Reason.INPUT_MISSING, f"input {tensor.name}: {words}")


def _fits(kind: str, declared: tuple[int, ...] | None, served: tuple[int, ...] | None) -> bool:
    if declared is None or served is None:
        return True
    if len(declared) != len(served):
        return False
    narrow, wide = (declared, served) if kind == "input" else (served, declared)
    return all(b in (a, VARIABLE) for a, b in zip(narrow, wide, strict=True))


def _shape(shape: tuple[int, ...] | None) -> str:
    return "of any rank" if shape is None else f"[{', '.join(map(str, shape))}]"


def _listed(tensors: Iterable[TensorInfo]) -> str:
    found = sorted(f"{each.name} {each.datatype} {_shape(each.shape)}" for each in tensors)
    return ", ".join(found) or "none"
