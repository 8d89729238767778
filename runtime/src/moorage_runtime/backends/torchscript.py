"""The TorchScript backend: a scripted or traced module, ``*.pt``, on the CPU.

A TorchScript file contains no names, datatypes or shapes, so model.yaml declares inputs and
outputs.
Inputs are passed to the arguments of ``forward`` with the same names, otherwise in order. Outputs
are taken from a dict by name, otherwise from a tuple in order.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.values.errors import InvalidConfig, ModelFailed
from moorage_runtime.values.inference import NO_SIGNATURES, InferRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

# Any, because this extra of several gigabytes is not installed for type checks.
torch: Any = importlib.import_module("torch")

_DECLARE: Final = (
    "a TorchScript file does not describe its tensors: declare inputs and outputs in model.yaml, "
    "each with name, datatype and shape"
)


class TorchScriptBackend:
    """Loads TorchScript files onto the CPU."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one module.

        Raises:
            InvalidConfig: The file is not a TorchScript module, its tensors are not declared, or
            ``forward`` has another number of arguments.
        """
        if not source.inputs or not source.outputs:
            raise InvalidConfig(f"{source.path.name}: {_DECLARE}")
        for kind, specs in (("inputs", source.inputs), ("outputs", source.outputs)):
            for index, spec in enumerate(specs):
                if spec.datatype is Datatype.BYTES:
                    raise InvalidConfig(
                        f"model.yaml: {kind}[{index}].datatype is BYTES, which TorchScript does "
                        "not support: must be a number or BOOL"
                    )
        # for the whole process, because torch has one thread pool
        torch.set_num_threads(source.options.get("torchscript_threads", 0) or source.threads)
        try:
            module = torch.jit.load(str(source.path), map_location="cpu").eval()
        except (RuntimeError, ValueError, OSError) as error:
            raise InvalidConfig(
                f"{source.path.name} is not a valid TorchScript module: {sentence_of(error)}"
            ) from error
        arguments = [argument.name for argument in module.forward.schema.arguments][1:]
        if len(source.inputs) > len(arguments):
            raise InvalidConfig(
                f"model.yaml: inputs has {len(source.inputs)} tensors: {source.path.name} has "
                f"{len(arguments)} arguments ({', '.join(arguments)})"
            )
        return TorchScriptModel(module, arguments, source.inputs, source.outputs)


class TorchScriptModel:
    """One module; running it does not change it."""

    platform = "pytorch_torchscript"
    signatures = NO_SIGNATURES
    dynamic = False
    inline_rows = 0
    streams = False
    merge_obstacle = "TorchScript graphs are not analyzed"

    def __init__(
        self,
        module: Any,
        arguments: Sequence[str],
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._module = module
        self._order = _argument_order(arguments, inputs)

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Call ``forward``.

        Raises:
            ModelFailed: It raised an exception, or its outputs differ from the declared ones.
        """
        given = {tensor.name: tensor for tensor in request.inputs}
        tensors = [_to_torch(given[name]) for name in self._order if name in given]
        try:
            with torch.inference_mode():
                answer = self._module(*tensors)
        except Exception as error:
            raise ModelFailed(f"TorchScript: {_last_line(error)}") from error
        return tuple(_to_tensor(spec, found) for spec, found in self._named(answer))

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Yield the only response."""
        yield self.infer(request)

    def close(self) -> None:
        """Release the module; it is freed after the last run."""

    def _named(self, answer: object) -> list[tuple[TensorSpec, Any]]:
        if isinstance(answer, Mapping):
            named = cast("Mapping[str, Any]", answer)
            missing = [spec.name for spec in self.outputs if spec.name not in named]
            if missing:
                raise ModelFailed(
                    f"the model returned no output '{missing[0]}', only {', '.join(named)}"
                )
            return [(spec, named[spec.name]) for spec in self.outputs]
        found = [answer] if isinstance(answer, torch.Tensor) else list(cast("Any", answer))
        if len(found) < len(self.outputs):
            raise ModelFailed(
                f"the model returned {len(found)} tensors: must return {len(self.outputs)}"
            )
        return list(zip(self.outputs, found, strict=False))


def _argument_order(arguments: Sequence[str], inputs: Sequence[TensorSpec]) -> list[str]:
    """Input names in the order of the arguments: by name if all match, otherwise as declared."""
    names = [spec.name for spec in inputs]
    if set(names) <= set(arguments):
        return [name for name in arguments if name in names]
    return names


def _to_torch(tensor: Tensor) -> Any:
    # torch has no read-only tensors, and a request's memory is read-only
    array = tensor.array if tensor.array.flags.writeable else tensor.array.copy()
    if tensor.datatype is Datatype.BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _to_tensor(spec: TensorSpec, value: Any) -> Tensor:
    value = value.detach().contiguous()
    array: NDArray[Any]
    if value.dtype is torch.bfloat16:
        array = value.view(torch.int16).numpy().view(np.uint16)
    else:
        array = value.numpy()
    is_bf16 = spec.datatype is Datatype.BF16
    if (value.dtype is torch.bfloat16) != is_bf16 or array.dtype != NUMPY_DTYPE[spec.datatype]:
        raise ModelFailed(
            f"output '{spec.name}' of the model is {str(value.dtype).removeprefix('torch.')}: "
            f"must be {spec.datatype}, as declared in model.yaml"
        )
    return Tensor(spec.name, spec.datatype, array)


def _last_line(error: Exception) -> str:
    """The message of a TorchScript error, which follows its trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
