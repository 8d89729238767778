"""The TorchScript backend: a scripted or traced module, ``*.pt``, on the CPU.

A TorchScript file does not tell names, datatypes or shapes, so model.yaml declares inputs and
outputs. Inputs go to the arguments of ``forward`` of the same names, else in their order; outputs
come from a dict by name, else from a tuple in their order.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.returned import sentence_of
from moorage_runtime.errors import InvalidConfig, ModelFailed
from moorage_runtime.inference import NO_SIGNATURES, InferRequest
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

# Any, because an extra of gigabytes is not there where types are checked.
torch: Any = importlib.import_module("torch")

_DECLARE: Final = (
    "a TorchScript file does not tell its tensors: declare inputs and outputs in model.yaml, each "
    "with name, datatype and shape"
)


class TorchScriptBackend:
    """Loads TorchScript files onto the CPU."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one module.

        Raises:
            InvalidConfig: The file is no TorchScript module, its tensors are not declared, or
                ``forward`` does not take so many.
        """
        if not source.inputs or not source.outputs:
            raise InvalidConfig(f"{source.path.name}: {_DECLARE}")
        for kind, specs in (("inputs", source.inputs), ("outputs", source.outputs)):
            for index, spec in enumerate(specs):
                if spec.datatype is Datatype.BYTES:
                    raise InvalidConfig(
                        f"model.yaml: {kind}[{index}].datatype is BYTES, which no TorchScript "
                        "tensor holds, expected a number or BOOL"
                    )
        # of the whole process: torch has one pool
        torch.set_num_threads(source.options.get("torchscript_threads", 0) or source.threads)
        try:
            module = torch.jit.load(str(source.path), map_location="cpu").eval()
        except (RuntimeError, ValueError, OSError) as error:
            raise InvalidConfig(
                f"{source.path.name} is not a TorchScript module: {sentence_of(error)}"
            ) from error
        arguments = [argument.name for argument in module.forward.schema.arguments][1:]
        if len(source.inputs) > len(arguments):
            raise InvalidConfig(
                f"model.yaml: inputs: {source.path.name} takes {len(arguments)} tensors "
                f"({', '.join(arguments)}), {len(source.inputs)} are declared"
            )
        return TorchScriptModel(module, arguments, source.inputs, source.outputs)


class TorchScriptModel:
    """One module; running it changes nothing in it."""

    platform = "pytorch_torchscript"
    signatures = NO_SIGNATURES
    dynamic = False
    steady = True
    streams = False
    row_wise = False

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
            ModelFailed: It raised, or its outputs are not those that are declared.
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
        """One answer."""
        yield self.infer(request)

    def close(self) -> None:
        """Let the module go; it is freed when the last run ends."""

    def _named(self, answer: object) -> list[tuple[TensorSpec, Any]]:
        if isinstance(answer, Mapping):
            named = cast("Mapping[str, Any]", answer)
            missing = [spec.name for spec in self.outputs if spec.name not in named]
            if missing:
                raise ModelFailed(
                    f"the model returned no output '{missing[0]}', it returned {', '.join(named)}"
                )
            return [(spec, named[spec.name]) for spec in self.outputs]
        found = [answer] if isinstance(answer, torch.Tensor) else list(cast("Any", answer))
        if len(found) < len(self.outputs):
            raise ModelFailed(
                f"the model returned {len(found)} tensors, expected {len(self.outputs)}"
            )
        return list(zip(self.outputs, found, strict=False))


def _argument_order(arguments: Sequence[str], inputs: Sequence[TensorSpec]) -> list[str]:
    """Input names in the order of the arguments: by name where all fit, else as declared."""
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
            f"output '{spec.name}' of the model is {str(value.dtype).removeprefix('torch.')}, "
            f"model.yaml declares {spec.datatype}"
        )
    return Tensor(spec.name, spec.datatype, array)


def _last_line(error: Exception) -> str:
    """The sentence of a TorchScript error, which follows its trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
