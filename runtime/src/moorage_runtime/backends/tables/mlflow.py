"""The MLflow backend: a folder that MLflow logged, without the package ``mlflow``.

The file ``MLmodel`` lists flavors, each a file in the format of a library. The first one that this
runtime serves is used. The signature names the inputs and the output. The generic flavor
``python_function`` alone is not enough: it runs a loader of MLflow or of the user.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec
import yaml

from moorage_runtime.backends.base import LoadedModel, ModelSource
from moorage_runtime.backends.containment import sentence_of
from moorage_runtime.backends.extra import imported
from moorage_runtime.backends.onnx.backend import OnnxBackend
from moorage_runtime.backends.tables import INPUT_NAME
from moorage_runtime.backends.tables.mlflow_signature import specs_of
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.inference import InferRequest, Signature
from moorage_runtime.values.tensors import Tensor

_LIMIT_BYTES: Final = 4 << 20
_GENERIC: Final = "python_function"
_OF_ESTIMATORS: Final = (".pkl", ".joblib", ".skops")

# The flavor's fields -> the name of its file.
_FILE_FIELDS: Final = {
    "sklearn": ("pickled_model", "model.pkl"),
    "xgboost": ("data", "model.xgb"),
    "lightgbm": ("data", "model.lgb"),
    "catboost": ("data", "model.cb"),
    "onnx": ("data", "model.onnx"),
}


class MlflowBackend:
    """Loads folders with an MLmodel file.

    Args:
        onnx: The backend of the flavor "onnx".
    """

    def __init__(self, onnx: OnnxBackend) -> None:
        self._onnx = onnx

    def load(self, source: ModelSource) -> LoadedModel:
        """Load the file of the first flavor that this runtime serves.

        Raises:
            InvalidConfig: MLmodel is invalid, has no such flavor, or its file cannot be loaded.
        """
        document = _read(source.path)
        flavor, fields = _flavor(document)
        key, usual = _FILE_FIELDS[flavor]
        file = str(fields.get(key) or usual)
        path = source.path.parent / file
        # a link in the folder may lead out of it, as in the cache of the Hugging Face Hub
        if ".." in path.parts[len(source.path.parent.parts) :] or pathlib.Path(file).is_absolute():
            raise InvalidConfig(
                f"MLmodel: flavors.{flavor}.{key} is '{file}': must be in the model's folder"
            )
        if not path.is_file():
            raise InvalidConfig(f"MLmodel: flavors.{flavor}.{key}: there is no file '{file}'")
        signature = document.get("signature")
        inputs = specs_of(signature, "inputs", INPUT_NAME)
        outputs = specs_of(signature, "outputs", "")
        of_file = msgspec.structs.replace(source, path=path)
        if source.inputs is None and inputs:
            of_file = msgspec.structs.replace(
                of_file, inputs=inputs, declared_in="MLmodel: signature"
            )
        if flavor == "onnx":
            # the graph describes its tensors itself
            loaded = self._onnx.load(msgspec.structs.replace(of_file, inputs=None))
        elif flavor == "sklearn":
            loaded = _load_sklearn(of_file, _method(document))
        else:
            loaded = _LOADERS[flavor](of_file, fields)
        name = outputs[0].name if outputs is not None and len(outputs) == 1 else ""
        return RenamedModel(loaded, f"mlflow_{flavor}", name if flavor != "onnx" else "")


class RenamedModel:
    """A model with another platform, and another name for its first output.

    Args:
        inner: The model.
        platform: Platform name.
        output: The name; "" keeps the model's own.
    """

    def __init__(self, inner: LoadedModel, platform: str, output: str) -> None:
        first = inner.outputs[0].name
        taken = {spec.name for spec in inner.outputs[1:]}
        name = output if output and output not in taken else first

        def renamed(item: str) -> str:
            return name if item == first else item

        self.platform = platform
        self.inputs = inner.inputs
        self.outputs = (msgspec.structs.replace(inner.outputs[0], name=name), *inner.outputs[1:])
        self.signatures: Mapping[str, Signature] = {
            key: Signature(
                value.method,
                value.inputs,
                {renamed(item): renamed(item) for item in value.outputs.values()},
            )
            for key, value in inner.signatures.items()
        }
        self.dynamic = inner.dynamic
        self.inline_rows = inner.inline_rows
        self.streams = inner.streams
        self.merge_obstacle = inner.merge_obstacle
        self._inner = inner
        self._name = name
        self._first = first

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run once; raises like the model."""
        asked = tuple(
            msgspec.structs.replace(item, name=self._first) if item.name == self._name else item
            for item in request.outputs
        )
        found = self._inner.infer(msgspec.structs.replace(request, outputs=asked))
        return tuple(
            Tensor(self._name, item.datatype, item.array, item.parameters)
            if item.name == self._first
            else item
            for item in found
        )

    def stream(self, request: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        """Yield the only response."""
        yield self.infer(request)

    def close(self) -> None:
        """Free the model's resources."""
        self._inner.close()


def _read(path: pathlib.Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
        if len(content) > _LIMIT_BYTES:
            raise InvalidConfig(
                f"MLmodel has {len(content)} bytes: must have at most {_LIMIT_BYTES}"
            )
        document: Any = yaml.safe_load(content)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidConfig(f"MLmodel is not valid YAML: {sentence_of(error)}") from error
    if not isinstance(document, dict):
        raise InvalidConfig("MLmodel is invalid: must be a mapping with 'flavors'")
    return cast("Mapping[str, Any]", document)


def _flavor(document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    flavors: Any = document.get("flavors")
    if not isinstance(flavors, dict) or not flavors:
        raise InvalidConfig("MLmodel: flavors is missing: must be a mapping of flavors")
    found = cast("dict[str, Any]", flavors)
    for name in _FILE_FIELDS:
        if isinstance(found.get(name), dict):
            return name, cast("Mapping[str, Any]", found[name])
    generic: Any = found.get(_GENERIC)
    loader = str(generic.get("loader_module", "")) if isinstance(generic, dict) else ""
    raise InvalidConfig(
        f"MLmodel: flavors has {', '.join(map(str, found))}"
        + (f" (loaded by {loader})" if loader else "")
        + f": must have one of {', '.join(_FILE_FIELDS)}, because this server does not run "
        "MLflow; log the model with one of these flavors, or write a Python model (model.py)"
    )


def _class(fields: Mapping[str, Any], key: str) -> str:
    """The last part of a class name, such as "xgboost.sklearn.XGBClassifier"."""
    return str(fields.get(key) or "").rpartition(".")[2]


def _method(document: Mapping[str, Any]) -> str:
    """The method with which MLflow answers, as ``pyfunc_predict_fn`` of save_model sets it.

    Raises:
        InvalidConfig: It is not text.
    """
    generic: Any = document["flavors"].get(_GENERIC)
    fields = cast("Mapping[str, Any]", generic if isinstance(generic, dict) else {})
    method = fields.get("predict_fn") or ""
    if not isinstance(method, str):
        raise InvalidConfig(
            f"MLmodel: flavors.{_GENERIC}.predict_fn is {method!r}: must be the name of a method"
        )
    return method


def _load_sklearn(source: ModelSource, method: str) -> LoadedModel:
    return _backend("scikit_learn", source.path.name).serve_file(source, method)


def _load_xgboost(source: ModelSource, fields: Mapping[str, Any]) -> LoadedModel:
    kind = _class(fields, "model_class")
    backend = _backend("xgboost", source.path.name)
    if kind.startswith("XGB"):
        return backend.serve_wrapped(source, kind)
    return backend.serve_booster(source, "xgboost_model")


def _load_lightgbm(source: ModelSource, fields: Mapping[str, Any]) -> LoadedModel:
    del fields
    if source.path.suffix in _OF_ESTIMATORS:
        # how MLflow saves the estimators of LightGBM depends on its version
        return _backend("scikit_learn", source.path.name).ScikitLearnBackend().load(source)
    return _backend("lightgbm", source.path.name).LightgbmBackend().load(source)


def _load_catboost(source: ModelSource, fields: Mapping[str, Any]) -> LoadedModel:
    if str(fields.get("save_format") or "cbm") != "cbm":
        raise InvalidConfig(
            f"MLmodel: flavors.catboost.save_format is '{fields['save_format']}': must be cbm"
        )
    return _backend("catboost", source.path.name).CatboostBackend().load(source)


def _backend(module: str, file: str) -> Any:
    """A module of this package; a model needs only the library of its flavor."""
    return imported("tables", f"moorage_runtime.backends.tables.{module}", file)


_LOADERS: Final[Mapping[str, Callable[[ModelSource, Mapping[str, Any]], LoadedModel]]] = {
    "xgboost": _load_xgboost,
    "lightgbm": _load_lightgbm,
    "catboost": _load_catboost,
}
