"""Checks requests and responses against the declarations of a model.

    dataplane: request -> RequestRules.check -> model -> RequestRules.select -> response

Pure. The rules of a version are compiled once, when it is loaded. Requirements: OIP "Inference
Request"; R0-069 to R0-072.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import msgspec

from moorage_runtime.values.errors import InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest, ModelMetadata
from moorage_runtime.values.tensors import NUMBERS, Tensor, TensorSpec

_MANY: Final = 20
_name_of: Final = attrgetter("name")


class _Rule(msgspec.Struct, frozen=True):
    """The rule for one input.

    Attributes:
        spec: As declared.
        sizes: Axis and size of each dimension that is not variable.
    """

    spec: TensorSpec
    sizes: tuple[tuple[int, int], ...]


class RequestRules:
    """The checks of one version of a model.

    Args:
        inputs: Declared inputs.
        outputs: Declared outputs.
        dynamic: Accept any tensors; only duplicate names are invalid.
    """

    def __init__(
        self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, dynamic: bool
    ) -> None:
        self._inputs = {spec.name: _Rule(spec, _sizes(spec)) for spec in inputs}
        self._outputs = [spec.name for spec in outputs]
        self._output_names = frozenset(self._outputs)
        self._unasked = tuple(spec.name for spec in outputs if not spec.optional)
        self._required = sum(not spec.optional for spec in inputs)
        self._dynamic = dynamic

    def check(self, request: InferRequest) -> None:
        """Refuse a request that does not fit the model.

        Raises:
            InvalidRequest: A name is unknown, duplicate or missing, or a datatype or shape
                differs.
        """
        inputs = request.inputs
        if len(inputs) > 1:
            _check_names(inputs)
        if not self._dynamic:
            self._check_inputs(inputs)
        if request.outputs:
            self._check_outputs(request)

    def select(self, request: InferRequest, outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The requested outputs, in the order of the request, otherwise of the model.

        Raises:
            ModelFailed: The model did not return one of them.
        """
        wanted = tuple(map(_name_of, request.outputs)) if request.outputs else self._unasked
        if not wanted or tuple(map(_name_of, outputs)) == wanted:
            return tuple(outputs)
        by_name = {tensor.name: tensor for tensor in outputs}
        try:
            return tuple([by_name[name] for name in wanted])
        except KeyError as missing:
            raise ModelFailed(
                f"the model returned no output '{missing.args[0]}', only {_listed(by_name)}"
            ) from missing

    def _check_inputs(self, inputs: Sequence[Tensor]) -> None:
        required = 0
        for tensor in inputs:
            rule = self._inputs.get(tensor.name)
            if rule is None:
                raise InvalidRequest(
                    f"unknown input '{tensor.name}': must be one of {_listed(self._inputs)}"
                )
            _check_tensor(tensor, rule)
            required += not rule.spec.optional
        if required != self._required:
            given = set(map(_name_of, inputs))
            needed = [name for name, rule in self._inputs.items() if not rule.spec.optional]
            missing = [name for name in needed if name not in given]
            raise InvalidRequest(
                f"input {_listed(missing)} is missing: the model requires {_listed(needed)}"
            )

    def _check_outputs(self, request: InferRequest) -> None:
        seen: set[str] = set()
        for output in request.outputs:
            if output.name in seen:
                raise InvalidRequest(
                    f"duplicate requested output '{output.name}': request it once"
                )
            seen.add(output.name)
            if self._outputs and output.name not in self._output_names:
                raise InvalidRequest(
                    f"unknown output '{output.name}': must be one of {_listed(self._outputs)}"
                )


def rules_of(metadata: ModelMetadata) -> RequestRules:
    """The rules for the metadata of a version."""
    return RequestRules(metadata.inputs, metadata.outputs, dynamic=metadata.dynamic)


def has_batch(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> bool:
    """Whether every first dimension is -1 and no tensor has only this dimension."""
    tensors = (*inputs, *outputs)
    return bool(tensors) and all(len(t.shape) > 1 and t.shape[0] == -1 for t in tensors)


def _sizes(spec: TensorSpec) -> tuple[tuple[int, int], ...]:
    return tuple((axis, size) for axis, size in enumerate(spec.shape) if size != -1)


def _check_names(inputs: Sequence[Tensor]) -> None:
    seen: set[str] = set()
    for tensor in inputs:
        if tensor.name in seen:
            raise InvalidRequest(f"duplicate input '{tensor.name}': send it once")
        seen.add(tensor.name)


def _check_tensor(tensor: Tensor, rule: _Rule) -> None:
    spec = rule.spec
    if tensor.datatype is not spec.datatype and not (
        spec.any_number and tensor.datatype in NUMBERS
    ):
        raise InvalidRequest(
            f"input '{spec.name}' has datatype {tensor.datatype}: must be {spec.datatype}"
        )
    if spec.any_shape:
        return
    shape = tensor.array.shape
    if len(shape) == len(spec.shape):
        for axis, size in rule.sizes:
            if shape[axis] != size:
                break
        else:
            return
    raise InvalidRequest(
        f"input '{spec.name}' has shape {list(shape)}: must be {list(spec.shape)}"
        + (" (-1 is any size)" if -1 in spec.shape else "")
    )


def _listed(names: Sequence[str] | dict[str, _Rule] | dict[str, Tensor]) -> str:
    quoted = [f"'{name}'" for name in list(names)[:_MANY]]
    more = ", …" if len(names) > _MANY else ""
    return ", ".join(quoted) + more if quoted else "none"
