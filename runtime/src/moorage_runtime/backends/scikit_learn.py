"""The scikit-learn backend: a fitted estimator, saved with joblib or skops.

The estimator takes one matrix with a row for each example and gives an output for each of its
methods, named after it. ``predict``, or the first method that it has, is the default; the others
are computed when a request asks for them.

A joblib file is a pickle and thereby code: it runs with the rights of the server. A skops file is
data: a type that is neither scikit-learn's nor numpy's nor trusted in model.yaml is refused by
its name.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import joblib
import msgspec
import numpy as np
import skops.io
from numpy.typing import NDArray

from moorage_runtime.backends import text
from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.returned import fault_of, sentence_of, tensor_of
from moorage_runtime.errors import InvalidConfig, InvalidRequest
from moorage_runtime.inference import InferRequest, Signature
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

log = logging.getLogger(__name__)

# The name that KServe's and MLServer's documents give the input of such models.
INPUT_NAME: Final = "input-0"
_METHODS: Final = ("predict", "predict_proba", "decision_function", "transform")
_DEFAULT_SIGNATURE: Final = "serving_default"


class ScikitLearnBackend:
    """Loads estimators."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load one estimator and see what it gives for a row of zeros, or of empty text.

        Raises:
            InvalidConfig: The file does not load, holds no estimator, holds types that are not
                trusted, or the estimator does not tell its inputs and outputs.
        """
        platform, estimator = _read(source)
        methods = [name for name in _METHODS if callable(getattr(estimator, name, None))]
        if not methods:
            raise InvalidConfig(
                f"{source.path.name} holds a {type(estimator).__name__}, expected an estimator "
                f"with one of {', '.join(_METHODS)}"
            )
        spec = _input(source, estimator)
        if source.outputs is not None:
            outputs = _declared_outputs(source.outputs, methods)
        else:
            outputs = _tried_outputs(source, estimator, methods, spec)
        return ScikitLearnModel(platform, estimator, spec, outputs)


class ScikitLearnModel:
    """One estimator; its methods read and do not change it."""

    dynamic = False
    steady = False
    streams = False
    row_wise = True

    def __init__(
        self, platform: str, estimator: Any, spec: TensorSpec, outputs: tuple[TensorSpec, ...]
    ) -> None:
        self.platform = platform
        self.inputs = (spec,)
        self.outputs = outputs
        self.signatures = _signatures(spec, outputs)
        self._estimator = estimator
        self._spec = spec
        self._datatypes = {output.name: output.datatype for output in outputs}

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Call the methods that the request asks for.

        Raises:
            InvalidRequest: The estimator finds the values wrong, as NaN where it takes none.
            ModelFailed: It raised anything else.
        """
        rows = _rows(request.inputs[0], self._spec.datatype)
        wanted = [output.name for output in request.outputs] or [self.outputs[0].name]
        try:
            return tuple(
                tensor_of(name, getattr(self._estimator, name)(rows), self._datatypes[name])
                for name in wanted
            )
        except ValueError as error:
            raise InvalidRequest(f"the model refuses the input: {sentence_of(error)}") from error
        except Exception as error:
            raise fault_of(error) from error

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """One answer."""
        yield self.infer(request)

    def close(self) -> None:
        """Let the estimator go; it is freed when the last run ends."""


def _read(source: ModelSource) -> tuple[str, Any]:
    """Platform and the object in the file."""
    path = source.path
    if path.suffix == ".joblib":
        return "sklearn_joblib", _attempt(source, lambda: joblib.load(path))
    if path.suffix != ".skops":
        raise InvalidConfig(
            f"{path.name} is not a file for scikit-learn, expected a name that ends with .joblib "
            "or .skops"
        )
    trusted = list(source.options.get("trusted_types", ()))
    types: list[str] = _attempt(source, lambda: skops.io.get_untrusted_types(file=path))
    unknown = sorted(set(types) - set(trusted))
    if unknown:
        raise InvalidConfig(
            f"{path.name} holds types that are not trusted: {', '.join(unknown)}; list those that "
            "you know in model.yaml as sklearn.trusted_types"
        )
    return "sklearn_skops", _attempt(source, lambda: skops.io.load(path, trusted=trusted))


def _attempt(source: ModelSource, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:
        log.exception("the model's file failed to load")
        problem = sentence_of(error).replace(f"{source.path.parent}/", "")
        raise InvalidConfig(f"{source.path.name} does not load: {problem}") from error


def _input(source: ModelSource, estimator: Any) -> TensorSpec:
    """The declared input, else a matrix with a column for each feature that was fitted."""
    if source.inputs is None:
        count = getattr(estimator, "n_features_in_", None)
        if count is None:
            raise InvalidConfig(
                f"{source.path.name}: the {type(estimator).__name__} does not tell how many "
                "features it takes: fit it before it is saved, or declare its input in model.yaml"
            )
        return TensorSpec(INPUT_NAME, Datatype.FP64, (-1, int(count)), any_number=True)
    if len(source.inputs) != 1 or source.inputs[0].datatype is Datatype.BF16:
        raise InvalidConfig(
            f"model.yaml: inputs: {len(source.inputs)} declared, expected one that is not BF16: "
            "an estimator takes one matrix"
        )
    spec = source.inputs[0]
    is_number = spec.datatype is not Datatype.BYTES
    return msgspec.structs.replace(spec, any_number=is_number)


def _declared_outputs(
    declared: tuple[TensorSpec, ...], methods: list[str]
) -> tuple[TensorSpec, ...]:
    for index, spec in enumerate(declared):
        if spec.name not in methods:
            raise InvalidConfig(
                f"model.yaml: outputs[{index}].name: the estimator has no method '{spec.name}', "
                f"expected one of {', '.join(methods)}"
            )
    return _first_by_default(list(declared))


def _tried_outputs(
    source: ModelSource, estimator: Any, methods: list[str], spec: TensorSpec
) -> tuple[TensorSpec, ...]:
    """Datatypes and shapes of what the methods give for one example."""
    example = _rows(_one_example(spec), spec.datatype)
    found: list[TensorSpec] = []
    for name in methods:
        try:
            tensor = tensor_of(name, getattr(estimator, name)(example), None)
        except Exception as error:
            if name == methods[0]:
                raise InvalidConfig(
                    f"{source.path.name}: {name} failed on an example of zeros or empty text "
                    f"({sentence_of(error)}): declare the outputs in model.yaml"
                ) from error
            log.info("model '%s' has no output '%s': %s", source.name, name, sentence_of(error))
        else:
            found.append(TensorSpec(name, tensor.datatype, (-1, *tensor.shape[1:])))
    return _first_by_default(found)


def _first_by_default(outputs: list[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(
        msgspec.structs.replace(spec, optional=index > 0) for index, spec in enumerate(outputs)
    )


def _one_example(spec: TensorSpec) -> Tensor:
    shape = tuple(max(size, 1) for size in spec.shape)
    if spec.datatype is Datatype.BYTES:
        return Tensor(spec.name, spec.datatype, np.full(shape, b"", np.object_))
    return Tensor(spec.name, spec.datatype, np.zeros(shape, NUMPY_DTYPE[spec.datatype]))


def _rows(tensor: Tensor, datatype: Datatype) -> NDArray[Any]:
    """What the estimator takes: text, or numbers of the declared datatype."""
    if datatype is Datatype.BYTES:
        return text.to_text(tensor.array)
    return tensor.array.astype(NUMPY_DTYPE[datatype], copy=False)


def _signatures(spec: TensorSpec, outputs: tuple[TensorSpec, ...]) -> Mapping[str, Signature]:
    """The default output as the default signature, every other under its method's name."""
    return {
        output.name if output.optional else _DEFAULT_SIGNATURE: Signature(
            "predict", {spec.name: spec.name}, {output.name: output.name}
        )
        for output in outputs
    }
