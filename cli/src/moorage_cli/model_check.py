"""What a contract and smoke tests have against a model's own tensors; pure.

    onnx_file (reads) --> **model_check** --> lint

The rules are the operator's: a declared input may be narrower than the model's, a declared output
wider; what is not declared of an output is left out. A smoke test's tensors are of one size.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from .structural import Problem

__all__ = ["ModelTensors", "Tensor", "model_problems"]

VARIABLE = -1


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a model; -1 is a variable dimension, a shape of None one of unknown rank."""

    name: str
    datatype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """What a model takes and gives."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def model_problems(spec: Mapping[str, Any], model: ModelTensors) -> list[Problem]:
    """What of `spec` the model does not keep.

    Args:
        spec: The spec of a resource that the schema has accepted.
        model: The tensors of the model that is to be served.
    """
    contract: Mapping[str, Any] = spec.get("contract") or {}
    found = [
        *_declared("inputs", contract.get("inputs"), model.inputs, "spec.contract.inputs"),
        *_declared("outputs", contract.get("outputs"), model.outputs, "spec.contract.outputs"),
    ]
    for at, test in enumerate(_listed(spec.get("smokeTests"))):
        path = f"spec.smokeTests[{at}]"
        found += _declared("inputs", test.get("inputs"), model.inputs, f"{path}.inputs")
        found += _missing(test.get("outputs"), model.outputs, f"{path}.outputs")
    return found


def _declared(
    side: str, declared: object, served: Sequence[Tensor], path: str
) -> Iterator[Problem]:
    tensors = _listed(declared)
    yield from _missing(tensors, served, path)
    by_name = {tensor.name: tensor for tensor in served}
    for at, tensor in enumerate(tensors):
        known = by_name.get(str(tensor.get("name")))
        if known is None:
            continue
        datatype = tensor.get("datatype")
        if datatype and datatype != known.datatype:
            words = f"the model has {known.datatype}, not {datatype}"
            yield Problem(f"{path}[{at}].datatype", words)
        if not _fits(side, tensor.get("shape"), known.shape):
            words = f"the model has {list(known.shape or ())}, not {tensor.get('shape')}"
            yield Problem(f"{path}[{at}].shape", words)
    if side == "inputs" and tensors:
        names = {tensor.get("name") for tensor in tensors}
        for tensor in served:
            if tensor.name not in names:
                yield Problem(path, f"the model wants input {tensor.name} too")


def _missing(declared: object, served: Sequence[Tensor], path: str) -> Iterator[Problem]:
    names = [tensor.name for tensor in served]
    for at, tensor in enumerate(_listed(declared)):
        if tensor.get("name") not in names:
            has = ", ".join(names) or "none"
            yield Problem(f"{path}[{at}].name", f"the model has {has}, not {tensor.get('name')}")


def _fits(side: str, declared: object, served: tuple[int, ...] | None) -> bool:
    if declared is None or served is None:
        return True
    sizes = tuple(cast("Sequence[int]", declared))
    if len(sizes) != len(served):
        return False
    narrow, wide = (sizes, served) if side == "inputs" else (served, sizes)
    return all(b in (a, VARIABLE) for a, b in zip(narrow, wide, strict=True))


def _listed(value: object) -> list[Mapping[str, Any]]:
    return cast("list[Mapping[str, Any]]", value) if isinstance(value, list) else []
