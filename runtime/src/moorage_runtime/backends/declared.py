"""Checks that model.yaml does not contradict the tensors of a model's file."""

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.tensors import TensorSpec


def check_declared(
    source: ModelSource, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
) -> None:
    """Compare the declarations in model.yaml, if any, with the file.

    Raises:
        InvalidConfig: A declared tensor is missing, or has another datatype or shape.
    """
    _check(source, "inputs", source.inputs, inputs)
    _check(source, "outputs", source.outputs, outputs)


def _check(
    source: ModelSource,
    field: str,
    declared: tuple[TensorSpec, ...] | None,
    real: tuple[TensorSpec, ...],
) -> None:
    by_name = {spec.name: spec for spec in real}
    for index, spec in enumerate(declared or ()):
        found = by_name.get(spec.name)
        if found is None:
            raise InvalidConfig(
                f"model.yaml: {field}[{index}].name: {source.path.name} has no '{spec.name}': "
                f"must be one of {', '.join(by_name)}"
            )
        if (found.datatype, found.shape) != (spec.datatype, spec.shape):
            raise InvalidConfig(
                f"model.yaml: {field}[{index}]: '{spec.name}' is declared as {spec.datatype} "
                f"{list(spec.shape)}: must be {found.datatype} {list(found.shape)}, as in "
                f"{source.path.name}"
            )
