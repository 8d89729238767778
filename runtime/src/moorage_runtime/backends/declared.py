"""model.yaml may repeat what a model's file says of its tensors, not contradict it."""

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.errors import InvalidConfig
from moorage_runtime.tensors import TensorSpec


def check_declared(
    source: ModelSource, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
) -> None:
    """Compare what model.yaml declares, if anything, with what the file really has.

    Raises:
        InvalidConfig: A declared tensor is not there, or is of another datatype or shape.
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
                f"model.yaml: {field}[{index}].name: {source.path.name} has no '{spec.name}', "
                f"expected one of {', '.join(by_name)}"
            )
        if (found.datatype, found.shape) != (spec.datatype, spec.shape):
            raise InvalidConfig(
                f"model.yaml: {field}[{index}]: '{spec.name}' is declared {spec.datatype} "
                f"{list(spec.shape)}, {source.path.name} has {found.datatype} "
                f"{list(found.shape)}"
            )
