"""What GRPS's methods do, the same over HTTP and gRPC.

    Message -> model, inputs -> dataplane -> outputs -> data of the answer

Methods raise ``errors.RuntimeFault``; :func:`status_of` turns it into the status that travels in
the answer.

Source: GRPS interface, "health", "metadata", "model selection", "streaming".
"""

from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from moorage_runtime import errors
from moorage_runtime.codec import grps_mapping, grps_metadata
from moorage_runtime.codec.grps_message import Data, Message, Status, Text
from moorage_runtime.inference import InferRequest, InferResponse

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

CODES: Final[Mapping[type[errors.RuntimeFault], int]] = MappingProxyType(
    {
        errors.RuntimeFault: 500,
        errors.InvalidRequest: 400,
        errors.PayloadTooLarge: 413,
        errors.UnsupportedEncoding: 415,
        errors.UnsupportedDatatype: 400,
        errors.NotFound: 404,
        errors.ModelNotFound: 404,
        errors.VersionNotFound: 404,
        errors.Unavailable: 503,
        errors.ModelNotReady: 503,
        errors.RepositoryUnread: 503,
        errors.QueueFull: 503,
        errors.ShuttingDown: 503,
        errors.DeadlineExceeded: 504,
        errors.InvalidConfig: 500,
        errors.ModelFailed: 500,
    }
)
NOT_READY: Final = Status(503, "Service Unavailable")


def status_of(fault: errors.RuntimeFault) -> Status:
    """The failure under the code of the fault's class, or of its nearest base."""
    code = errors.nearest(CODES, fault)
    # a model's own error text may hold what UTF-8 cannot carry
    return Status(code, fault.message.encode(errors="backslashreplace").decode() or fault.reason)


class GrpsCalls:
    """The methods over one dataplane."""

    def __init__(self, dataplane: "Dataplane") -> None:
        self._dataplane = dataplane

    async def online(self) -> None:
        """Take traffic."""
        await self._dataplane.online()

    async def offline(self) -> None:
        """Take no traffic; what is asked nevertheless is still answered."""
        await self._dataplane.offline()

    def is_ready(self) -> bool:
        """Online, and every model is loaded."""
        return self._dataplane.ready()

    def server_metadata(self) -> Text:
        """The YAML text about the server."""
        return Text(
            grps_metadata.encode_server(
                self._dataplane.server_metadata(),
                self._dataplane.model_index(),
                self._dataplane.default_model(),
            )
        )

    def model_metadata(self, message: Message) -> Text:
        """The YAML text about the model that ``str_data`` names.

        Raises:
            InvalidRequest: ``str_data`` is missing or empty.
            ModelNotFound: There is no such model.
        """
        if not isinstance(message.data, Text) or not message.data.value:
            raise errors.InvalidRequest("str_data: is missing; expected the name of a model")
        name, version = self.find(message.data.value)
        status = self._dataplane.model_ready(name, version)
        try:
            metadata = self._dataplane.model_metadata(name, version)
        except errors.ModelNotReady:
            metadata = None
        return Text(grps_metadata.encode_model(status, metadata))

    async def predict(self, message: Message) -> Data:
        """The answer of the model that the message asks.

        Raises:
            RuntimeFault: Any.
        """
        begun = self.begin(message)
        return await begun if isinstance(begun, Awaitable) else begun

    def begin(self, message: Message) -> Data | Awaitable[Data]:
        """The answer at once where the model is known to be quick, else by awaiting.

        Raises:
            RuntimeFault: As ``predict``; the awaitable raises it too.
        """
        data, request = self._request(message)
        response = self._dataplane.begin(request)
        if isinstance(response, InferResponse):
            return _answer(response, data)
        return _answer_later(response, data)

    async def predict_stream(self, message: Message) -> AsyncGenerator[Data]:
        """The answer in as many parts as the model gives.

        Raises:
            RuntimeFault: Any, also after some parts.
        """
        data, request = self._request(message)
        parts = self._dataplane.infer_stream(request)
        async with aclosing(cast("AsyncGenerator[InferResponse]", parts)) as responses:
            async for response in responses:
                yield _answer(response, data)

    def _request(self, message: Message) -> tuple[Data, InferRequest]:
        if message.data is None:
            raise errors.InvalidRequest(
                "the message has no data; expected one of str_data, gtensors, ndarray, gmap, or "
                "bytes as application/octet-stream (bin_data over gRPC)"
            )
        name, version = self.find(message.model)
        metadata = self._dataplane.model_metadata(name, version)
        inputs = grps_mapping.inputs_of(message.data, metadata)
        # the version is pinned: the inputs were made for that version's metadata
        return message.data, InferRequest(name, metadata.version, inputs)

    def find(self, asked: str) -> tuple[str, str]:
        """Name and version ("" for the server's choice) of the model asked for.

        Raises:
            InvalidRequest: None is asked for and there is no default.
            ModelNotFound: There is no such model.
            RepositoryUnread: The models are not known yet.
        """
        if not asked:
            default = self._dataplane.default_model()
            if default is None:
                self._dataplane.check_scanned()
                raise errors.InvalidRequest(
                    "model: is missing, and the server has several models and no default"
                )
            return default, ""
        found = self._dataplane.labelled(asked)
        if found is None:
            self._dataplane.check_scanned()
            raise errors.ModelNotFound(
                f"model: {asked[:200]!r} is unknown; expected 'name-version' or 'name' of a model"
            )
        return found


def _answer(response: InferResponse, request: Data) -> Data:
    return grps_mapping.answer_of(response.outputs, request)


async def _answer_later(response: Awaitable[InferResponse], request: Data) -> Data:
    return _answer(await response, request)
