"""``model.yaml``: what a model's file cannot tell.

Stands between the loader, which reads the file, and the backends and the registry, which take
the parts. Every field is optional. The schema that editors use is made from these classes
(``model.schema.json``), so that it cannot differ.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
import yaml

from moorage_runtime import validation
from moorage_runtime.batching import policy
from moorage_runtime.batching.policy import BatchingPolicy
from moorage_runtime.errors import InvalidConfig
from moorage_runtime.inference import Signature
from moorage_runtime.tensors import Datatype, TensorSpec


class TensorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input or output: name, OIP datatype, shape with -1 for a variable dimension."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    optional: bool = False


class SignatureConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A TensorFlow Serving signature: keys (or feature names) to the model's tensor names."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    method: Literal["predict", "classify", "regress"] = "predict"


class OnnxConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the ONNX Runtime backend; 0 threads means those that the container may use."""

    threads: int = 0


class OpenvinoConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the OpenVINO backend; 0 threads means those that the container may use."""

    threads: int = 0


class SklearnConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scikit-learn backend.

    Attributes:
        trusted_types: Types that a skops file may hold besides scikit-learn's and numpy's own.
    """

    trusted_types: list[str] = []


class TorchscriptConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the TorchScript backend; 0 threads means those that the container may use."""

    threads: int = 0


class BatchingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Merging of the requests that wait for the model.

    Attributes:
        enabled: true merges without a trial: the rows of a batch are known not to influence one
            another. false never merges. When absent the backend and a trial decide.
        max_batch_size: Rows of one run at most; a larger request runs alone.
        max_queue_delay_microseconds: How long a request may wait for others while the model is
            idle. 0: it runs at once.
    """

    enabled: bool | None = None
    max_batch_size: Annotated[int, msgspec.Meta(ge=1)] = 64
    max_queue_delay_microseconds: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0


class LatestVersions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The highest versions, so many of them."""

    latest: Annotated[int, msgspec.Meta(ge=1)]


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of a model.yaml.

    Attributes:
        backend: "onnx", "python", "sklearn", "openvino" or "torchscript"; by the file's name
            when absent.
        python_class: Name of the class in model.py; the only PythonModel in it when absent.
        platform: Platform name in the metadata instead of the backend's.
        inputs: Declared inputs of a Python model; the input of a scikit-learn model in place of
            the default one; for other files the tensors that they must have.
        outputs: Declared outputs.
        batching: Whether the first dimension of every input and output is a batch, by the shapes
            when absent; or how requests are merged along it.
        default_version: Version for requests that name none; the highest when absent.
        default: Answers requests that name no model, where a protocol allows that.
        versions: Versions to load by name, or ``{latest: n}``; as the server's settings say
            when absent.
        signatures: TensorFlow Serving signatures.
        labels: Version label to version.
        version_numbers: Version to the number that TensorFlow Serving clients use.
        parameters: Handed to a Python model as they are.
        onnx: Options of the ONNX Runtime backend.
        openvino: Options of the OpenVINO backend.
        sklearn: Options of the scikit-learn backend.
        torchscript: Options of the TorchScript backend.
    """

    backend: Literal["onnx", "python", "sklearn", "openvino", "torchscript"] | None = None
    python_class: str | None = None
    platform: str | None = None
    inputs: tuple[TensorConfig, ...] | None = None
    outputs: tuple[TensorConfig, ...] | None = None
    batching: bool | BatchingConfig = BatchingConfig()
    default_version: str | None = None
    default: bool = False
    versions: tuple[str, ...] | LatestVersions | None = None
    signatures: dict[str, SignatureConfig] = {}
    labels: dict[str, str] = {}
    version_numbers: dict[str, int] = {}
    parameters: dict[str, Any] = {}
    onnx: OnnxConfig = OnnxConfig()
    openvino: OpenvinoConfig = OpenvinoConfig()
    sklearn: SklearnConfig = SklearnConfig()
    torchscript: TorchscriptConfig = TorchscriptConfig()


NO_CONFIG: Final = ModelConfig()


def parse(text: bytes) -> ModelConfig:
    """Read a model.yaml.

    Raises:
        InvalidConfig: The text is no YAML mapping or a field is wrong; the message has the
            field's path and what was expected.
    """
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise InvalidConfig(f"model.yaml is not YAML: {problem}") from error
    if document is None:
        return NO_CONFIG
    if not isinstance(document, dict):
        raise InvalidConfig(f"model.yaml: expected a mapping, found {type(document).__name__}")
    try:
        return msgspec.convert(document, ModelConfig)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"model.yaml: {error}") from error


def specs(tensors: tuple[TensorConfig, ...]) -> tuple[TensorSpec, ...]:
    """Declared tensors in the form of the metadata."""
    return tuple(TensorSpec(t.name, t.datatype, t.shape, t.optional) for t in tensors)


def has_batch(
    config: ModelConfig, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> bool:
    """Whether the first dimension of every tensor is a batch."""
    if isinstance(config.batching, bool):
        return config.batching
    return config.batching.enabled is True or validation.has_batch(inputs, outputs)


def batching_policy(
    config: ModelConfig,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    row_wise: bool,
) -> BatchingPolicy | None:
    """How requests are merged; None merges none.

    Args:
        config: Of the model.
        inputs: Of the loaded model; none of a Python class that takes whatever comes.
        outputs: The same.
        row_wise: As in ``LoadedModel``.

    Raises:
        InvalidConfig: Merging is asked for and the shapes do not allow it.
    """
    asked = config.batching
    obstacle = policy.obstacle(inputs, outputs)
    if isinstance(asked, bool):
        return BatchingPolicy(is_tried=False) if asked and not obstacle else None
    if asked.enabled and obstacle:
        raise InvalidConfig(f"model.yaml: batching.enabled: {obstacle}")
    is_tried = asked.enabled is None
    if asked.enabled is False or (is_tried and not (row_wise and policy.suits(inputs, outputs))):
        return None
    delay = asked.max_queue_delay_microseconds / 1e6
    return BatchingPolicy(asked.max_batch_size, delay, is_tried=is_tried)


def signatures(config: ModelConfig) -> dict[str, Signature]:
    """Declared signatures in the form of the metadata."""
    return {
        name: Signature(signature.method, signature.inputs, signature.outputs)
        for name, signature in config.signatures.items()
    }


def schema() -> dict[str, Any]:
    """The JSON schema of model.yaml."""
    return msgspec.json.schema(ModelConfig)
