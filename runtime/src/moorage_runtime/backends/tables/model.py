"""Runs a model of tables: request tensors -> table -> library -> output tensors.

The answer to a request without rows is an output without rows; libraries differ in that case.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from moorage_runtime.backends.base import ModelSource
from moorage_runtime.backends.containment import fault_of, sentence_of
from moorage_runtime.backends.declared import check_declared
from moorage_runtime.backends.returned import tensor_of
from moorage_runtime.backends.tables.layout import Layout
from moorage_runtime.values.errors import InvalidConfig, InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest, Signature
from moorage_runtime.values.tensors import NUMPY_DTYPE, Tensor, TensorSpec

_DEFAULT_SIGNATURE: Final = "serving_default"

# A table and the names of outputs -> their values.
Answer = Callable[[Any, Sequence[str]], Mapping[str, Any]]


class TableModel:
    """One model of tables; running it does not change it.

    Args:
        platform: Platform name.
        layout: Its inputs.
        outputs: Its outputs; an optional one is returned on request.
        answer: Computes outputs for a table; thread-safe.
        merge_obstacle: As in ``LoadedModel``.
        refusals: Exceptions with which the library refuses the values of a request.
    """

    dynamic = False
    inline_rows = 0
    streams = False

    def __init__(
        self,
        platform: str,
        layout: Layout,
        outputs: tuple[TensorSpec, ...],
        answer: Answer,
        *,
        merge_obstacle: str = "",
        refusals: tuple[type[Exception], ...] = (),
    ) -> None:
        self.platform = platform
        self.inputs = layout.specs
        self.outputs = outputs
        self.signatures = _signatures(layout.specs, outputs)
        self.merge_obstacle = merge_obstacle
        self._layout = layout
        self._answer = answer
        self._refusals = refusals
        self._specs = {spec.name: spec for spec in outputs}

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Compute the outputs that the request asks for.

        Raises:
            InvalidRequest: A column has another shape, or the library refuses the values.
            ModelFailed: The library raised any other exception, or returned another number of
                rows.
        """
        table = self._layout.table(request.inputs)
        asked = [output.name for output in request.outputs]
        wanted = asked or [spec.name for spec in self.outputs if not spec.optional]
        specs = [self._specs[name] for name in wanted]
        if not len(table) and all(-1 not in spec.shape[1:] for spec in specs):
            return tuple(map(_without_rows, specs))
        try:
            found = self._answer(table, wanted)
            return tuple(
                _of_rows(tensor_of(spec.name, found[spec.name], spec.datatype), len(table))
                for spec in specs
            )
        except self._refusals as error:
            raise InvalidRequest(f"the model refuses the input: {sentence_of(error)}") from error
        except BaseException as error:
            raise fault_of(error) from error

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Yield the only response."""
        yield self.infer(request)

    def close(self) -> None:
        """Release the model; it is freed after the last run."""


def tried(
    layout: Layout, answer: Answer, names: Sequence[str], number: int = 0
) -> tuple[TensorSpec, ...]:
    """The outputs of a run with one row, the first one by default and the others on request.

    Args:
        layout: The inputs.
        answer: Computes the outputs.
        names: Of the outputs.
        number: The value of a column of which the file gives none.

    Raises:
        ModelFailed: It returned another number of rows.
        Exception: Whatever the library raises for the row.
    """
    table = layout.table(layout.example(number))
    found = answer(table, names)
    tensors = [_of_rows(tensor_of(name, found[name], None), len(table)) for name in found]
    return first_by_default(
        [TensorSpec(item.name, item.datatype, (-1, *item.shape[1:])) for item in tensors]
    )


def tried_outputs(
    source: ModelSource, layout: Layout, answer: Answer, names: Sequence[str]
) -> tuple[TensorSpec, ...]:
    """The outputs of a run with one row, compared with those that model.yaml declares.

    Raises:
        InvalidConfig: The library fails, or the declaration differs.
    """
    try:
        outputs = tried(layout, answer, names)
    except BaseException as error:
        raise InvalidConfig(
            f"{source.path.name} failed for an example of zeros or empty text: "
            f"{sentence_of(error)}"
        ) from error
    check_declared(source, source.inputs or (), outputs)
    return outputs


def first_by_default(outputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The outputs, of which all but the first are returned only on request."""
    return tuple(
        msgspec.structs.replace(spec, optional=index > 0) for index, spec in enumerate(outputs)
    )


def _of_rows(tensor: Tensor, rows: int) -> Tensor:
    """An answer with as many rows as the table; numpy's squeeze makes one row a single value.

    Raises:
        ModelFailed: It has another number of rows.
    """
    if not tensor.shape and rows == 1:
        return msgspec.structs.replace(tensor, array=tensor.array.reshape(1))
    if tensor.shape[:1] != (rows,):
        raise ModelFailed(
            f"output '{tensor.name}' of the model has shape {list(tensor.shape)}: its first "
            f"dimension must be {rows}, the rows of the input"
        )
    return tensor


def _without_rows(spec: TensorSpec) -> Tensor:
    return Tensor(
        spec.name, spec.datatype, np.empty((0, *spec.shape[1:]), NUMPY_DTYPE[spec.datatype])
    )


def _signatures(
    inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
) -> Mapping[str, Signature]:
    """The default output as the default signature; every other output as a signature with its
    name.
    """
    names = {spec.name: spec.name for spec in inputs}
    return {
        output.name if output.optional else _DEFAULT_SIGNATURE: Signature(
            "predict", names, {output.name: output.name}
        )
        for output in outputs
    }
