"""``model.yaml``: properties that a model's file does not contain.

The loader reads the file; the backends and the registry use its parts. Every field is optional.
The schema for editors (``model.schema.json``) is generated from these classes.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, cast

import msgspec

from moorage_runtime.execution.batching import policy
from moorage_runtime.execution.batching.policy import BatchingPolicy
from moorage_runtime.repository.contents import yaml_text
from moorage_runtime.values import validation
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.inference import Signature
from moorage_runtime.values.tensors import INTEGER_MAX, INTEGER_MIN, Datatype, TensorSpec

# Clients read these as 64-bit integers.
Dimension = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
ThreadCount = Annotated[int, msgspec.Meta(ge=0, le=4096)]
VersionNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


Format = Literal[
    "onnx",
    "python",
    "sklearn",
    "xgboost",
    "lightgbm",
    "catboost",
    "mlflow",
    "openvino",
    "torchscript",
    "text",
]


class TensorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input or output: name, OIP datatype, shape with -1 for a variable dimension."""

    name: str
    datatype: Datatype
    shape: tuple[Dimension, ...]
    optional: bool = False


class SignatureConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A TensorFlow Serving signature: keys (or feature names) to the model's tensor names."""

    inputs: dict[str, str]
    outputs: dict[str, str]
    method: Literal["predict", "classify", "regress"] = "predict"


class OnnxConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the ONNX Runtime backend.

    Attributes:
        threads: Threads of one run; 0 is the number of usable cores.
        inline: Run a request in the server's event loop if its run is provably shorter than the
            transfer to a thread. false runs every request in a thread.
        tf32: Let a GPU round the factors of FP32 products to 10 bits (TF32). Convolutions are then
            two to three times as fast, with errors of about 0.0003 of the largest value. It has
            no effect on the CPU.
    """

    threads: ThreadCount = 0
    inline: bool = True
    tf32: bool = False


class OpenvinoConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the OpenVINO backend; 0 threads is the number of usable cores."""

    threads: ThreadCount = 0


class TorchscriptConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the TorchScript backend; 0 threads is the number of usable cores."""

    threads: ThreadCount = 0


class PythonConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a Python model runs.

    Attributes:
        isolation: "process" runs the model in its own process, so that a crash, an exit or an
            endless call ends that process and not the server.
        timeout_seconds: Maximum time of one call, or of one part of a stream, in that process.
            After it, the process is restarted; 0 is no limit.
        requirements: Install the packages of requirements.txt beside the model's file, for this
            model alone. This requires a process of its own, and --python-packages.
    """

    isolation: Literal["none", "process"] = "none"
    requirements: bool = False
    timeout_seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0


class TextConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the backend for encoders.

    Attributes:
        task: "classify" answers with labels and scores, "embed" with embeddings; by default, what
            the files of the model say.
        max_tokens: Maximum number of tokens of a text, which is cut off after them; by default,
            what the files of the model say.
    """

    task: Literal["classify", "embed"] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None


class BatchingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Merging of requests that wait for the model.

    Attributes:
        enabled: true declares that the rows of a batch are independent of each other. false
            never merges requests. By default, requests are merged only if the model's file proves
            this independence.
        max_batch_size: Maximum number of rows of a run; a larger request runs alone.
        max_queue_delay_microseconds: How long a request may wait for others while the model is
            idle; 0 runs it at once.
    """

    enabled: bool | None = None
    max_batch_size: Annotated[int, msgspec.Meta(ge=1)] = 64
    max_queue_delay_microseconds: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0


class LatestVersions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of highest versions to serve."""

    latest: Annotated[int, msgspec.Meta(ge=1)]


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a model.yaml.

    Attributes:
        backend: "onnx", "python", "sklearn", "xgboost", "lightgbm", "catboost", "mlflow",
            "openvino", "torchscript" or "text"; by default, chosen by the file names.
        python_class: Name of the class in model.py; by default, the only PythonModel in it.
        platform: Platform name in the metadata, instead of the backend's.
        inputs: Inputs of a Python model; for a model of tables, one matrix or one input per
            column; for other files, the tensors that they must have.
        outputs: Outputs, in the same way.
        batching: Whether the first dimension of every input and output is a batch, by default
            derived from the shapes; or how requests are merged along it.
        default_version: Version for requests without one; by default, the highest.
        default: Answer requests without a model name, in protocols that allow this.
        versions: Names of the versions to load, or ``{latest: n}``; by default, the server's
            setting.
        signatures: TensorFlow Serving signatures.
        labels: Version label to version.
        version_numbers: Version to its number for TensorFlow Serving clients.
        parameters: Parameters that are passed to a Python model unchanged.
        timeout_seconds: Maximum time for which a request may wait and run, and for each part of a
            stream; 0 is no limit. By default, the server's setting.
        python: Where a Python model runs.
        onnx: Options of the ONNX Runtime backend.
        openvino: Options of the OpenVINO backend.
        torchscript: Options of the TorchScript backend.
        text: Options of the backend for encoders.
    """

    backend: Format | None = None
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
    version_numbers: dict[str, VersionNumber] = {}
    parameters: dict[str, Any] = {}
    timeout_seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None
    python: PythonConfig = PythonConfig()
    onnx: OnnxConfig = OnnxConfig()
    openvino: OpenvinoConfig = OpenvinoConfig()
    torchscript: TorchscriptConfig = TorchscriptConfig()
    text: TextConfig = TextConfig()


NO_CONFIG: Final = ModelConfig()
# Names of msgspec for the types of values.
_KINDS: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
    "date": "a date; quote it to make it a string",
    "datetime": "a time; quote it to make it a string",
}
# Its messages, in the form of this server's.
_PROBLEMS: Final = {
    "^Object contains unknown field `(.*)`$": r"unknown field '\1'",
    "^Object missing required field `(.*)`$": r"field '\1' is missing",
    "^Invalid enum value '?(.*?)'?$": r"'\1' is not an allowed value",
    "^Expected (.*), got (.*)$": r"must be \1, not \2",
    "^Expected (.*)$": r"must be \1",
    "`": "'",
}
_SWITCHED_OFF: Final = "model.yaml disables it"


def parse(text: bytes) -> ModelConfig:
    """Read a model.yaml.

    Raises:
        InvalidConfig: The text is not a YAML mapping, exceeds a limit, or has an invalid field;
            the message contains the path of the field and what is allowed.
    """
    try:
        document = yaml_text.read(text)
    except ValueError as error:
        raise InvalidConfig(f"model.yaml is not valid YAML: {error}") from error
    if document is None:
        return NO_CONFIG
    if not isinstance(document, dict):
        raise InvalidConfig(f"model.yaml: {document!r:.60} is invalid: must be a mapping")
    try:
        config = msgspec.convert(document, ModelConfig)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"model.yaml: {_sentence(error)}") from error
    _check_names("inputs", config.inputs or ())
    _check_names("outputs", config.outputs or ())
    for problem in _parameter_problems(config.parameters, "parameters"):
        raise InvalidConfig(f"model.yaml: {problem}")
    return config


def _check_names(field: str, tensors: Sequence[TensorConfig]) -> None:
    names = [tensor.name for tensor in tensors]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidConfig(
                f"model.yaml: {field}[{index}].name: '{name}' is already the name of "
                f"{field}[{names.index(name)}]: must be unique"
            )


def _parameter_problems(value: object, field: str) -> Iterator[str]:
    """What a model in its own process would not receive as it is written."""
    match value:
        case dict():
            for key, item in cast("Mapping[object, object]", value).items():
                yield from _parameter_problems(key, f"{field}: a key")
                yield from _parameter_problems(item, f"{field}.{key!s:.60}")
        case list():
            for index, item in enumerate(cast("Sequence[object]", value)):
                yield from _parameter_problems(item, f"{field}[{index}]")
        case int() if not INTEGER_MIN <= value <= INTEGER_MAX:
            yield (
                f"{field}: {value!r:.60} is invalid: must be an integer from {INTEGER_MIN} to "
                f"{INTEGER_MAX}; quote it to make it a string"
            )
        case dt.date():
            yield f"{field}: {value} is a date: quote it to make it a string"
        case str() | bytes() | int() | float() | None:
            pass
        case _:
            yield (
                f"{field}: {value!r:.60} is invalid: must be a string, number, true or false, "
                "null, list or mapping"
            )


def _sentence(error: msgspec.ValidationError) -> str:
    """The path of the field and the problem, in the terms of YAML instead of Python."""
    problem, _, place = str(error).partition(" - at `")
    is_key = place.startswith("key` in `")
    if problem.startswith("Expected "):
        problem = re.sub(r"`([a-z| ]+)`", _kinds, problem)
    for pattern, words in _PROBLEMS.items():
        problem = re.sub(pattern, words, problem)
    path = place.removeprefix("key` in `").removesuffix("`").removeprefix("$").removeprefix(".")
    if is_key:
        problem = f"a key {problem}"
    return f"{path}: {problem}" if path else problem


def _kinds(found: re.Match[str]) -> str:
    kinds = found[1].split(" | ")
    return " or ".join(map(_KINDS.__getitem__, kinds)) if set(kinds).issubset(_KINDS) else found[0]


def specs(tensors: tuple[TensorConfig, ...]) -> tuple[TensorSpec, ...]:
    """Declared tensors as metadata."""
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
    merge_obstacle: str,
) -> BatchingPolicy | str:
    """The batching policy, or the reason for its absence.

    Args:
        config: Configuration of the model.
        inputs: Inputs of the loaded model; empty for a Python class that accepts any tensors.
        outputs: Outputs of the loaded model.
        merge_obstacle: As in ``LoadedModel``.

    Raises:
        InvalidConfig: Merging is enabled, but the shapes do not allow it.
    """
    asked = config.batching
    obstacle = policy.obstacle(inputs, outputs)
    if isinstance(asked, bool):
        if asked:
            return obstacle or BatchingPolicy()
        return _SWITCHED_OFF
    if asked.enabled is False:
        return _SWITCHED_OFF
    if asked.enabled and obstacle:
        raise InvalidConfig(f"model.yaml: batching.enabled is true, but {obstacle}")
    if asked.enabled is None and (obstacle or merge_obstacle):
        return obstacle or merge_obstacle
    return BatchingPolicy(asked.max_batch_size, asked.max_queue_delay_microseconds / 1e6)


def signatures(config: ModelConfig) -> dict[str, Signature]:
    """Declared signatures as metadata."""
    return {
        name: Signature(signature.method, signature.inputs, signature.outputs)
        for name, signature in config.signatures.items()
    }


def schema() -> dict[str, Any]:
    """The JSON schema of model.yaml."""
    return msgspec.json.schema(ModelConfig)
