"""Does a request fit the model, and does the model's answer fit the request?

    dataplane: request -> RequestRules.check -> model -> RequestRules.select -> response

Pure. The rules of one version are compiled once, when it is loaded. Requirements: OIP "Inference
Request"; R0-069 to R0-072.
"""

from collections.abc import Sequence
from typing import Final

from moorage_runtime.errors import InvalidRequest, ModelFailed
from moorage_runtime.inference import InferRequest, ModelMetadata
from moorage_runtime.tensors import NUMBERS, Tensor, TensorSpec

_MANY: Final = 20


class RequestRules:
    """The checks of one version of a model.

    Args:
        inputs: Declared inputs.
        outputs: Declared outputs.
        dynamic: Whatever comes fits; only duplicate names are wrong.
    """

    def __init__(
        self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], *, dynamic: bool
    ) -> None:
        self._inputs = {spec.name: spec for spec in inputs}
        self._outputs = [spec.name for spec in outputs]
        self._output_names = frozenset(self._outputs)
        self._unasked = [spec.name for spec in outputs if not spec.optional]
        self._required = sum(not spec.optional for spec in inputs)
        self._dynamic = dynamic

    def check(self, request: InferRequest) -> None:
        """Refuse a request that does not fit.

        Raises:
            InvalidRequest: A name is unknown, doubled or missing, or a datatype or shape differs.
        """
        seen: set[str] = set()
        required = 0
        for tensor in request.inputs:
            name = tensor.name
            if name in seen:
                raise InvalidRequest(f"input '{name}' is given twice")
            seen.add(name)
            if self._dynamic:
                continue
            spec = self._inputs.get(name)
            if spec is None:
                raise InvalidRequest(
                    f"unexpected input '{name}', expected {_listed(self._inputs)}"
                )
            _check_tensor(tensor, spec)
            required += not spec.optional
        if required != self._required and not self._dynamic:
            missing = [
                n for n, spec in self._inputs.items() if n not in seen and not spec.optional
            ]
            raise InvalidRequest(
                f"input {_listed(missing)} is missing, expected {_listed(self._inputs)}"
            )
        if request.outputs:
            self._check_outputs(request)

    def select(self, request: InferRequest, outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The outputs that were asked for, in the order of the request, else of the model.

        Raises:
            ModelFailed: The model did not give one of them.
        """
        wanted = [output.name for output in request.outputs] or self._unasked
        if not wanted or [tensor.name for tensor in outputs] == wanted:
            return tuple(outputs)
        by_name = {tensor.name: tensor for tensor in outputs}
        try:
            return tuple([by_name[name] for name in wanted])
        except KeyError as missing:
            raise ModelFailed(
                f"the model returned no output '{missing.args[0]}', it returned {_listed(by_name)}"
            ) from missing

    def _check_outputs(self, request: InferRequest) -> None:
        seen: set[str] = set()
        for output in request.outputs:
            if output.name in seen:
                raise InvalidRequest(f"output '{output.name}' is requested twice")
            seen.add(output.name)
            if self._outputs and output.name not in self._output_names:
                raise InvalidRequest(
                    f"unexpected output '{output.name}', expected {_listed(self._outputs)}"
                )


def rules_of(metadata: ModelMetadata) -> RequestRules:
    """The rules that a version's metadata sets."""
    return RequestRules(metadata.inputs, metadata.outputs, dynamic=metadata.dynamic)


def has_batch(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> bool:
    """Whether the shapes look like a batch first: -1 leads every one, and none has only that."""
    tensors = (*inputs, *outputs)
    return bool(tensors) and all(len(t.shape) > 1 and t.shape[0] == -1 for t in tensors)


def _check_tensor(tensor: Tensor, spec: TensorSpec) -> None:
    if tensor.datatype is not spec.datatype and not (
        spec.any_number and tensor.datatype in NUMBERS
    ):
        raise InvalidRequest(
            f"input '{spec.name}' has datatype {tensor.datatype}, expected {spec.datatype}"
        )
    shape = tensor.array.shape
    if spec.any_shape:
        return
    if len(shape) == len(spec.shape):
        for size, expected in zip(shape, spec.shape, strict=True):
            if expected not in (size, -1):
                break
        else:
            return
    raise InvalidRequest(
        f"input '{spec.name}' has shape {list(shape)}, expected {list(spec.shape)}"
        + (" (-1 stands for any size)" if -1 in spec.shape else "")
    )


def _listed(names: Sequence[str] | dict[str, TensorSpec] | dict[str, Tensor]) -> str:
    quoted = [f"'{name}'" for name in list(names)[:_MANY]]
    more = ", …" if len(names) > _MANY else ""
    return ", ".join(quoted) + more if quoted else "none"
