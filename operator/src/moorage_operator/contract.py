"""A client's tensors against those of a model's metadata: every difference in a sentence; pure.

    replicas --> contract.difference (one replica) --> readiness: MetadataMatched
             `-> contract.disagreement (among replicas)

A contract holds when every request that it allows is one that the model takes, and every answer
that the model may give is one that it allows. So a declared input may be narrower than the served
one, and a declared output wider, and not the other way round.
"""

from collections.abc import Iterable, Mapping, Sequence

from .answers import ModelInfo, TensorInfo
from .api.contract import VARIABLE, Contract, DeclaredTensor
from .conditions import Finding, Reason

__all__ = ["CONTRACT_REASONS", "difference", "disagreement"]

# In the order in which they are named.
ORDER = (
    Reason.INPUT_MISSING,
    Reason.OUTPUT_MISSING,
    Reason.DATATYPE_MISMATCH,
    Reason.SHAPE_MISMATCH,
)

CONTRACT_REASONS = {
    *ORDER,
    Reason.REPLICAS_DISAGREE,
    Reason.METADATA_UNSUPPORTED,
    Reason.AWAITING_METADATA,
}


def difference(contract: Contract, info: ModelInfo | None) -> Finding | None:
    """What speaks against the contract, None where nothing does.

    Args:
        contract: With at least one tensor.
        info: The model's metadata; None where its server has none.
    """
    if info is None:
        return Finding(Reason.METADATA_UNSUPPORTED, "the server tells no metadata of the model")
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


def disagreement(told: Mapping[str, ModelInfo]) -> Finding | None:
    """That replicas of one revision have different tensors; `told` is by the pod's name."""
    pods = sorted(told)
    for pod in pods[1:]:
        first, other = told[pods[0]], told[pod]
        for kind, mine, theirs in (
            ("inputs", first.inputs, other.inputs),
            ("outputs", first.outputs, other.outputs),
        ):
            if set(mine) != set(theirs):
                sentence = f"pod {pods[0]} has {kind} {_listed(mine)}, pod {pod} {_listed(theirs)}"
                return Finding(Reason.REPLICAS_DISAGREE, sentence)
    return None


def _sides(
    kind: str,
    declared: Sequence[DeclaredTensor],
    served: Sequence[TensorInfo],
    missing: Reason,
) -> Iterable[Finding]:
    by_name = {tensor.name: tensor for tensor in served}
    for tensor in declared:
        found = by_name.get(tensor.name)
        if found is None:
            has = ", ".join(sorted(by_name)) or "none"
            yield Finding(missing, f"{kind} {tensor.name}: the model has {has}")
            continue
        if tensor.datatype and tensor.datatype != found.datatype:
            words = f"datatype {tensor.datatype} declared, {found.datatype} served"
            yield Finding(Reason.DATATYPE_MISMATCH, f"{kind} {tensor.name}: {words}")
        if not _fits(kind, tensor.shape, found.shape):
            words = f"shape {_shape(tensor.shape)} declared, {_shape(found.shape)} served"
            yield Finding(Reason.SHAPE_MISMATCH, f"{kind} {tensor.name}: {words}")


def _undeclared(
    declared: Sequence[DeclaredTensor], served: Sequence[TensorInfo]
) -> Iterable[Finding]:
    """Inputs that the model wants and a client of this contract does not send."""
    if not declared:
        return
    names = {tensor.name for tensor in declared}
    for tensor in served:
        if tensor.name not in names:
            words = f"input {tensor.name}: the model wants it, the contract does not have it"
            yield Finding(Reason.INPUT_MISSING, words)


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
