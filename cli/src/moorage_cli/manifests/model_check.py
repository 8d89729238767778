"""Compares a contract and smoke tests with the tensors of a model; pure.

    onnx_file (reads) --> **model_check** --> lint

The rules are the operator's: a declared input may be narrower than the model's, a declared output
may be wider, and undeclared properties of an output are ignored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from moorage_cli.manifests.structural import Problem

__all__ = ["ModelTensors", "Tensor", "model_problems"]

VARIABLE = -1


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a model; -1 is a variable dimension, a shape of None has an unknown rank."""

    name: str
    datatype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ModelTensors:
    """The inputs and outputs of a model."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def model_problems(spec: Mapping[str, Any], model: ModelTensors) -> list[Problem]:
    """The differences between `spec` and the model.

    Args:
        spec: A spec that the schema accepts.
        model: The tensors of the model.
    """
    contract: Mapping[str, Any] = spec.get("contract") or {}
    inputs, outputs = contract.get("inputs"), contract.get("outputs")
    found = [
        *_declared(inputs, model.inputs, "spec.contract.inputs", are_inputs=True),
        *_declared(outputs, model.outputs, "spec.contract.outputs", are_inputs=False),
    ]
    smoke_tests: Mapping[str, Any] = spec.get("smokeTests") or {}
    for at, test in enumerate(_listed(smoke_tests.get("tests"))):
        path = f"spec.smokeTests.tests[{at}]"
        found += _declared(test.get("inputs"), model.inputs, f"{path}.inputs", are_inputs=True)
        found += _missing(test.get("outputs"), model.outputs, f"{path}.outputs")
    return found


def _declared(
    declared: object, served: Sequence[Tensor], path: str, *, are_inputs: bool
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
            problem = f"{datatype} differs from the model, which has {known.datatype}"
            yield Problem(f"{path}[{at}].datatype", problem)
        if not _fits(tensor.get("shape"), known.shape, is_input=are_inputs):
            own = list(known.shape or ())
            problem = f"{tensor.get('shape')} does not fit the model, which has {own}"
            yield Problem(f"{path}[{at}].shape", problem)
    if are_inputs and tensors:
        names = {tensor.get("name") for tensor in tensors}
        for tensor in served:
            if tensor.name not in names:
                yield Problem(path, f"input {tensor.name}, which the model requires, is missing")


def _missing(declared: object, served: Sequence[Tensor], path: str) -> Iterator[Problem]:
    names = [tensor.name for tensor in served]
    for at, tensor in enumerate(_listed(declared)):
        if tensor.get("name") not in names:
            problem = f"the model has no {tensor.get('name')}: must be one of {', '.join(names)}"
            yield Problem(f"{path}[{at}].name", problem)


def _fits(declared: object, served: tuple[int, ...] | None, *, is_input: bool) -> bool:
    if declared is None or served is None:
        return True
    sizes = tuple(cast("Sequence[int]", declared))
    if len(sizes) != len(served):
        return False
    narrow, wide = (sizes, served) if is_input else (served, sizes)
    return all(b in (a, VARIABLE) for a, b in zip(narrow, wide, strict=True))


def _listed(value: object) -> list[Mapping[str, Any]]:
    return cast("list[Mapping[str, Any]]", value) if isinstance(value, list) else []
