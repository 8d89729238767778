"""Requests, responses and metadata as frozen values, independent of any protocol.

Frontends decode into these values, the dataplane takes and returns them, codecs encode them.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from moorage_runtime.values.tensors import NO_PARAMETERS, Parameters, Tensor, TensorSpec


class RequestedOutput(msgspec.Struct, frozen=True):
    """One output that the client requested by name."""

    name: str
    parameters: Parameters = NO_PARAMETERS


class InferRequest(msgspec.Struct, frozen=True, gc=False):
    """One inference.

    Attributes:
        model_name: Name of the model.
        model_version: Version; "" lets the server choose.
        inputs: Tensors in the client's order.
        outputs: Requested outputs in the client's order; empty means all.
        id: The client's id, or None ("" is an id).
        parameters: Request-level parameters, including unknown ones.
    """

    model_name: str
    model_version: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[RequestedOutput, ...] = ()
    id: str | None = None
    parameters: Parameters = NO_PARAMETERS


class InferResponse(msgspec.Struct, frozen=True, gc=False):
    """The response to one inference; outputs are in requested order, otherwise in the model's
    order.
    """

    model_name: str
    model_version: str
    outputs: tuple[Tensor, ...]
    id: str | None = None
    parameters: Parameters = NO_PARAMETERS


class Signature(msgspec.Struct, frozen=True):
    """A TensorFlow Serving signature of the model's tensors.

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
    """Metadata of one version of a model.

    Attributes:
        name: Model name.
        version: The version that this metadata describes.
        versions: Versions that can be requested, ascending.
        platform: "<project>_<format>", see OIP "Platforms".
        inputs: Declared inputs; may be empty with ``dynamic``.
        outputs: Declared outputs.
        batching: The first dimension of every input and output is a batch.
        dynamic: The model accepts any tensors, as a Python class can; names,
            datatypes and shapes are not validated.
        signatures: Declared TensorFlow Serving signatures; empty means that the frontend
            derives ``serving_default`` from inputs and outputs.
        labels: Version label to version, for TensorFlow Serving's ``/labels/{label}``.
        version_numbers: Version to its number for TensorFlow Serving clients, for a version
            that is not a number; the default is its rank.
        http_path: Path of the model's own HTTP format, "" without one.
        http_predict: The model also answers the predict path of GRPS.
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
    """Name, version and the supported protocol extensions."""

    name: str
    version: str
    extensions: tuple[str, ...]


class HttpCall(msgspec.Struct, frozen=True):
    """A request in a model's own HTTP format, as a Python model receives it.

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
    """The response to an HttpCall.

    Attributes:
        body: The whole body, or an iterator whose parts are sent as they arrive.
        status: HTTP status code.
        content_type: Value of Content-Type.
    """

    body: bytes | Iterator[bytes]
    status: int = 200
    content_type: str = "application/octet-stream"


class ModelStatus(msgspec.Struct, frozen=True):
    """The state of one version of a model.

    Attributes:
        state: "LOADING", "READY", "FAILED" or "UNLOADED".
        message: The reason of a failure, or what a load is doing; "" if there is none.
    """

    name: str
    version: str
    state: str
    message: str = ""
