"""The TorchScript backend: a scripted or traced module, ``*.pt``, on the CPU.

A TorchScript file contains no names, datatypes or shapes, so model.yaml declares inputs and
outputs.
Inputs are passed to the arguments of ``forward`` with the same names, otherwise in order. Outputs
are taken from a dict or a named tuple by name, otherwise from a tuple in order.
"""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import numpy as np

from moorage_runtime.backends import empty_inputs
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


# Kinds of arguments that no tensor can be passed to.
_CONTAINERS: Final = frozenset({"ListType", "DictType", "TupleType", "StringType"})
_TORCH_NAMES: Final = {
    datatype: "bfloat16" if datatype is Datatype.BF16 else dtype.name
    for datatype, dtype in NUMPY_DTYPE.items()
}


class TorchScriptBackend:
    """Loads TorchScript files onto the CPU."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one module.

        Raises:
            InvalidConfig: The file is not a TorchScript module, its tensors are not declared, or
            the declared inputs do not fit the arguments of ``forward``.
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
                f"{source.path.name} is not a valid TorchScript module, as torch.jit.save writes "
                f"it: {sentence_of(error)}"
            ) from error
        return TorchScriptModel(
            module, _bound(source, source.inputs, module), source.inputs, source.outputs
        )


class TorchScriptModel:
    """One module, which all threads share; a module may change its own buffers.

    Args:
        module: The module.
        arguments: Name of an input to the argument that it is passed to.
        inputs: As declared.
        outputs: As declared.
    """

    platform = "pytorch_torchscript"
    signatures = NO_SIGNATURES
    dynamic = False
    inline_rows = 0
    streams = False
    merge_obstacle = "TorchScript graphs are not analyzed"

    def __init__(
        self,
        module: Any,
        arguments: Mapping[str, str],
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._module = module
        self._arguments = arguments

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Call ``forward``.

        Raises:
            InvalidRequest: It raised an exception, and an input is empty.
            ModelFailed: It raised an exception, or its outputs differ from the declared ones.
        """
        given = {self._arguments[tensor.name]: _to_torch(tensor) for tensor in request.inputs}
        try:
            with torch.inference_mode():
                answer = self._module(**given)
        except Exception as error:
            raise empty_inputs.failed(
                f"TorchScript: {_last_line(error)}", request.inputs
            ) from error
        return tuple(_to_tensor(spec, found) for spec, found in self._named(answer))

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Yield the only response."""
        yield self.infer(request)

    def close(self) -> None:
        """Release the module; it is freed after the last run."""

    def _named(self, answer: Any) -> list[tuple[TensorSpec, object]]:
        names = [spec.name for spec in self.outputs]
        if isinstance(answer, tuple) and set(names) <= set(getattr(answer, "_fields", ())):
            return [(spec, getattr(answer, spec.name)) for spec in self.outputs]
        if isinstance(answer, Mapping):
            named = cast("Mapping[object, object]", answer)
            missing = [name for name in names if name not in named]
            if missing:
                raise ModelFailed(
                    f"the model returned no output '{missing[0]}', only "
                    f"{', '.join(map(str, named))}"
                )
            return [(spec, named[spec.name]) for spec in self.outputs]
        found = list(cast("Any", answer)) if isinstance(answer, tuple | list) else [answer]
        if len(found) < len(names):
            raise ModelFailed(f"the model returned {len(found)} tensors: must return {len(names)}")
        return list(zip(self.outputs, found, strict=False))


def _bound(source: ModelSource, inputs: tuple[TensorSpec, ...], module: Any) -> dict[str, str]:
    """Name of each input to its argument: by name if all match, otherwise in order.

    Raises:
        InvalidConfig: The inputs do not fit the arguments.
    """
    file = source.path.name
    if not hasattr(module, "forward"):
        raise InvalidConfig(f"{file} has no method forward: it must have one")
    arguments = {each.name: each for each in module.forward.schema.arguments[1:]}
    listed = f"forward({', '.join(arguments)}) of {file}"
    if len(inputs) > len(arguments):
        raise InvalidConfig(
            f"model.yaml: inputs has {len(inputs)} tensors: {file} has {len(arguments)} arguments "
            f"({', '.join(arguments)})"
        )
    names = [spec.name for spec in inputs]
    if set(names) <= set(arguments):
        bound = {name: name for name in names}
    else:
        bound = dict(zip(names, arguments, strict=False))
    for index, (name, argument) in enumerate(bound.items()):
        if name != argument and name in arguments:
            raise InvalidConfig(
                f"model.yaml: inputs[{index}].name is '{name}', but its place is that of "
                f"'{argument}' in {listed}: name all inputs like arguments, or none"
            )
        kind = arguments[argument].type
        if _unwrapped(kind).kind() in _CONTAINERS:
            raise InvalidConfig(
                f"argument '{argument}' in {listed} is {kind}: must be a tensor or a number"
            )
    given = {bound[spec.name] for spec in inputs if not spec.optional}
    for name, argument in arguments.items():
        if name not in given and not argument.has_default_value():
            raise InvalidConfig(
                f"model.yaml: inputs has no tensor for '{name}' in {listed}, which has no "
                "default value: declare one that is not optional"
            )
    return bound


def _unwrapped(kind: Any) -> Any:
    """The type within an ``Optional``."""
    return kind.getElementType() if kind.kind() == "OptionalType" else kind


def _to_torch(tensor: Tensor) -> Any:
    # torch has no read-only tensors, and a request's memory is read-only
    array = tensor.array if tensor.array.flags.writeable else tensor.array.copy()
    if tensor.datatype is Datatype.BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _to_tensor(spec: TensorSpec, value: Any) -> Tensor:
    if not isinstance(value, torch.Tensor):
        raise ModelFailed(
            f"output '{spec.name}' of the model is {type(value).__name__}: must be a tensor"
        )
    tensor: Any = value
    found = str(tensor.dtype).removeprefix("torch.")
    if found != _TORCH_NAMES[spec.datatype]:
        raise ModelFailed(
            f"output '{spec.name}' of the model is {found}: must be {spec.datatype}, as declared "
            "in model.yaml"
        )
    if tensor.layout is not torch.strided:
        raise ModelFailed(
            f"output '{spec.name}' of the model has the layout "
            f"{str(tensor.layout).removeprefix('torch.')}: must be dense"
        )
    # a copy, because the next run may change a buffer of the module that is returned
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format).resolve_neg()
    if spec.datatype is Datatype.BF16:
        tensor = tensor.view(torch.int16)
    array = tensor.numpy().view(NUMPY_DTYPE[spec.datatype])
    return Tensor(spec.name, spec.datatype, array)


def _last_line(error: Exception) -> str:
    """The message of a TorchScript error, which follows its trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
