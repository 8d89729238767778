"""The methods of GRPS, shared by HTTP and gRPC.

    Message -> model, inputs -> dataplane -> outputs -> data of the response

Methods raise ``errors.RuntimeFault``; :func:`status_of` turns it into the status in the response.

Source: GRPS interface, "health", "metadata", "model selection", "streaming".
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from moorage_runtime.codec.grps import mapping as grps_mapping
from moorage_runtime.codec.grps import metadata as grps_metadata
from moorage_runtime.codec.grps.message import Data, Message, Status, Text
from moorage_runtime.frontends.status_codes import HTTP_STATUS
from moorage_runtime.values import errors
from moorage_runtime.values.inference import InferRequest, InferResponse

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

NOT_READY: Final = Status(503, "Service Unavailable")


def status_of(fault: errors.RuntimeFault) -> Status:
    """The failure with the code of the fault's class, or of its nearest base class."""
    code = errors.nearest(HTTP_STATUS, fault)
    # a model's own error message may contain text that is not valid UTF-8
    return Status(code, fault.message.encode(errors="backslashreplace").decode() or fault.reason)


class GrpsCalls:
    """The methods over one dataplane.

    Args:
        dataplane: The models.
        may_switch: Whether clients may take the server offline and online.
    """

    def __init__(self, dataplane: "Dataplane", *, may_switch: bool = True) -> None:
        self._dataplane = dataplane
        self._may_switch = may_switch

    async def online(self) -> None:
        """Put the server online.

        Raises:
            Forbidden: The settings do not allow it.
        """
        self._check_switch()
        await self._dataplane.online()

    async def offline(self) -> None:
        """Take the server offline; requests are still answered.

        Raises:
            Forbidden: The settings do not allow it.
        """
        self._check_switch()
        await self._dataplane.offline()

    def _check_switch(self) -> None:
        if not self._may_switch:
            raise errors.Forbidden(
                "Online and Offline are disabled: set --token-file and send a bearer token, or "
                "set --grps-traffic-control=true to allow them to every client"
            )

    def is_ready(self) -> bool:
        """Whether the server is online and its models are loaded."""
        return self._dataplane.ready()

    def server_metadata(self) -> Text:
        """Metadata of the server as YAML."""
        return Text(
            grps_metadata.encode_server(
                self._dataplane.server_metadata(),
                self._dataplane.model_index(),
                self._dataplane.default_model(),
            )
        )

    def model_metadata(self, message: Message) -> Text:
        """Metadata of the model in ``str_data`` as YAML.

        Raises:
            InvalidRequest: ``str_data`` is missing or empty.
            ModelNotFound: The model does not exist.
        """
        if not isinstance(message.data, Text) or not message.data.value:
            raise errors.InvalidRequest("str_data is missing: must be the name of a model")
        name, version = self.find(message.data.value)
        status = self._dataplane.model_ready(name, version)
        try:
            metadata = self._dataplane.model_metadata(name, version)
        except errors.ModelNotReady:
            metadata = None
        return Text(grps_metadata.encode_model(status, metadata))

    async def predict(self, message: Message) -> Data:
        """The response of the requested model.

        Raises:
            RuntimeFault: Any.
        """
        begun = self.begin(message)
        return await begun if isinstance(begun, Awaitable) else begun

    def begin(self, message: Message) -> Data | Awaitable[Data]:
        """The response, at once if the run is provably short, otherwise as an awaitable.

        Raises:
            RuntimeFault: As ``predict``; the awaitable raises it too.
        """
        data, request = self._request(message)
        response = self._dataplane.begin(request)
        if isinstance(response, InferResponse):
            return _answer(response, data)
        return _answer_later(response, data)

    async def predict_stream(self, message: Message) -> AsyncGenerator[Data]:
        """The response in as many parts as the model yields.

        Raises:
            RuntimeFault: Any, even after some parts.
        """
        data, request = self._request(message)
        parts = self._dataplane.infer_stream(request)
        async with aclosing(cast("AsyncGenerator[InferResponse]", parts)) as responses:
            async for response in responses:
                yield _answer(response, data)

    def _request(self, message: Message) -> tuple[Data, InferRequest]:
        if message.data is None:
            raise errors.InvalidRequest(
                "the message has no data: must have one of str_data, gtensors, ndarray, gmap, or "
                "bytes as application/octet-stream (bin_data over gRPC)"
            )
        name, version = self.find(message.model)
        metadata = self._dataplane.model_metadata(name, version)
        inputs = grps_mapping.inputs_of(message.data, metadata)
        # the version is pinned: the inputs were decoded for its metadata
        return message.data, InferRequest(name, metadata.version, inputs)

    def find(self, asked: str) -> tuple[str, str]:
        """Name and version of the requested model; a version of "" lets the server choose.

        Raises:
            InvalidRequest: No model is requested, and there is no default.
            ModelNotFound: The model does not exist.
            RepositoryUnread: The repository has not been read yet.
        """
        if not asked:
            default = self._dataplane.default_model()
            if default is None:
                self._dataplane.check_scanned()
                raise errors.InvalidRequest(
                    "model is missing: the server has several models and no default; set "
                    "it to 'name-version' or 'name'"
                )
            return default, ""
        found = self._dataplane.labelled(asked)
        if found is None:
            self._dataplane.check_scanned()
            raise errors.ModelNotFound(
                f"model: {asked[:200]!r} is unknown: must be 'name-version' or 'name' of a model"
            )
        return found


def _answer(response: InferResponse, request: Data) -> Data:
    return grps_mapping.answer_of(response.outputs, request)


async def _answer_later(response: Awaitable[InferResponse], request: Data) -> Data:
    return _answer(await response, request)
