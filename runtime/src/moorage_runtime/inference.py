"""Requests, responses and metadata as plain frozen values, free of any protocol.

Frontends decode into these, the dataplane takes and returns them, codecs encode from them.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from moorage_runtime.tensors import NO_PARAMETERS, Parameters, Tensor, TensorSpec


class RequestedOutput(msgspec.Struct, frozen=True):
    """One output that the client asked for by name."""

    name: str
    parameters: Parameters = NO_PARAMETERS


class InferRequest(msgspec.Struct, frozen=True, gc=False):
    """One inference.

    Attributes:
        model_name: Name of the model.
        model_version: Version, or "" for the server's choice.
        inputs: Tensors in the client's order.
        outputs: Requested outputs in the client's order; empty means all.
        id: The client's id, None when it gave none ("" is an id).
        parameters: Request-level parameters, unknown ones included.
    """

    model_name: str
    model_version: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[RequestedOutput, ...] = ()
    id: str | None = None
    parameters: Parameters = NO_PARAMETERS


class InferResponse(msgspec.Struct, frozen=True, gc=False):
    """The answer to one inference; outputs are in requested order, else in the model's."""

    model_name: str
    model_version: str
    outputs: tuple[Tensor, ...]
    id: str | None = None
    parameters: Parameters = NO_PARAMETERS


class Signature(msgspec.Struct, frozen=True):
    """A TensorFlow Serving signature over the model's tensors.

    Attributes:
        method: "predict", "classify" or "regress".
        inputs: Signature key (or feature name) to model input name, in order.
        outputs: Signature key to model output name, in order. classify reads "classes" and
            "scores", regress reads "outputs".
    """

    method: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


NO_SIGNATURES: Final[Mapping[str, Signature]] = MappingProxyType({})
NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
NO_VERSION_NUMBERS: Final[Mapping[str, int]] = MappingProxyType({})


class ModelMetadata(msgspec.Struct, frozen=True):
    """What one version of a model says of itself.

    Attributes:
        name: Model name.
        version: The version that this metadata is of.
        versions: Versions that may be asked for, ascending.
        platform: "<project>_<format>", see OIP "Platforms".
        inputs: Declared inputs; with ``dynamic`` they may be empty.
        outputs: Declared outputs.
        batching: The first dimension of every input and output is a batch.
        dynamic: The model takes whatever tensors come (a Python class may); names, datatypes
            and shapes are then not validated.
        signatures: Declared TensorFlow Serving signatures; empty means that the frontend
            derives ``serving_default`` from inputs and outputs.
        labels: Version label to version, as TensorFlow Serving's ``/labels/{label}`` names them.
        version_numbers: Version to the number that TensorFlow Serving clients see, for a version
            that is not a number and shall not get its rank.
        http_path: Path at which the model answers in a format of its own, "" for none.
        http_predict: It answers GRPS's own predict path so as well.
    """

    name: str
    version: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batching: bool = False
    dynamic: bool = False
    signatures: Mapping[str, Signature] = NO_SIGNATURES
    labels: Mapping[str, str] = NO_LABELS
    version_numbers: Mapping[str, int] = NO_VERSION_NUMBERS
    http_path: str = ""
    http_predict: bool = False


class ServerMetadata(msgspec.Struct, frozen=True):
    """Name, version and the protocol extensions that really work."""

    name: str
    version: str
    extensions: tuple[str, ...]


class HttpCall(msgspec.Struct, frozen=True):
    """A request in a format of the model's own, as a Python model gets it.

    Attributes:
        method: "GET" or "POST".
        path: The path, percent-decoded.
        query: The last value of each query parameter.
        headers: Lower-case name to value.
        body: The whole body.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class HttpReply(msgspec.Struct, frozen=True):
    """The answer to an HttpCall.

    Attributes:
        body: All of it, or an iterator whose parts are sent as they come.
        status: HTTP status code.
        content_type: Value of Content-Type.
    """

    body: bytes | Iterator[bytes]
    status: int = 200
    content_type: str = "application/octet-stream"


class ModelStatus(msgspec.Struct, frozen=True):
    """State of one version of a model in the registry.

    Attributes:
        state: "LOADING", "READY", "FAILED" or "UNLOADED".
        message: Why it failed, "" otherwise.
    """

    name: str
    version: str
    state: str
    message: str = ""
