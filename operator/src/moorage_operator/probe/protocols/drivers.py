"""The drivers of all protocols and transports, created on first use.

    Drivers -- OipRest, TensorflowRest, Grps(GrpsRest), OpenAiRest, PlainHttp -- HttpClient
          `--- OipGrpc, Grps(GrpsGrpc) ------------------------------------- GrpcChannels

Drivers have no state; the clients that they share hold connections and are closed here. gRPC and
protobuf take an eighth of the memory of the process, and many installations have no server that
uses them. So their modules are imported with the first driver that needs them, which takes a tenth
of a second, once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from moorage_operator.probe.driver import INFERENCE_LIMIT_BYTES, Driver
from moorage_operator.probe.transport.credentials import Credentials
from moorage_operator.probe.transport.http_client import HttpClient
from moorage_operator.values.secret_content import ReadSecret, read_none

from .oip_rest import OipRest
from .openai_rest import OpenAiRest
from .plain_http import PlainHttp
from .tensorflow_rest import TensorflowRest

if TYPE_CHECKING:
    from moorage_operator.probe.transport.grpc_channels import GrpcChannels

DriverKey = tuple[str, str]
"""A protocol and a transport, with their names in the spec."""


class Drivers(Mapping[DriverKey, Driver]):
    """The drivers by protocol and transport, and their shared connections.

    Args:
        read_secret: Reads the Secrets of servers with TLS or tokens.
        ca_file: CAs for servers whose Secret has none or may not be read.

    Attributes:
        certificates: When the certificates of the servers expire.
    """

    def __init__(self, read_secret: ReadSecret = read_none, *, ca_file: str = "") -> None:
        self._credentials = Credentials(read_secret, ca_file=ca_file)
        self.certificates = self._credentials.certificates
        self._http = HttpClient(self._credentials)
        self._calls: tuple[GrpcChannels, GrpcChannels] | None = None
        self._made: dict[DriverKey, Driver] = {}
        self._make: Mapping[DriverKey, Callable[[], Driver]] = {
            ("OpenInference", "HTTP"): lambda: OipRest(self._http),
            ("OpenInference", "GRPC"): self._make_oip_grpc,
            ("TensorFlowServing", "HTTP"): lambda: TensorflowRest(self._http),
            ("GRPS", "HTTP"): self._make_grps_rest,
            ("GRPS", "GRPC"): self._make_grps_grpc,
            ("OpenAI", "HTTP"): lambda: OpenAiRest(self._http),
            ("None", "HTTP"): lambda: PlainHttp(self._http),
        }

    def __getitem__(self, way: DriverKey) -> Driver:
        """Return the driver of a protocol and transport."""
        if way not in self._made:
            self._made[way] = self._make[way]()
        return self._made[way]

    def __iter__(self) -> Iterator[DriverKey]:
        """Iterate over the supported protocols and transports."""
        return iter(self._make)

    def __len__(self) -> int:
        """Return the number of supported protocols and transports."""
        return len(self._make)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()
        await self._credentials.close()
        for channels in self._calls or ():
            await channels.close()

    def _make_oip_grpc(self) -> Driver:
        from .oip_grpc import OipGrpc  # noqa: PLC0415 -- imports gRPC, see above

        return OipGrpc(*self._channels())

    def _make_grps_rest(self) -> Driver:
        from .grps import Grps  # noqa: PLC0415 -- imports protobuf, see above
        from .grps_rest import GrpsRest  # noqa: PLC0415 -- as above

        return Grps(GrpsRest(self._http))

    def _make_grps_grpc(self) -> Driver:
        from .grps import Grps  # noqa: PLC0415 -- imports protobuf, see above
        from .grps_grpc import GrpsGrpc  # noqa: PLC0415 -- imports gRPC, see above

        return Grps(GrpsGrpc(*self._channels()))

    def _channels(self) -> "tuple[GrpcChannels, GrpcChannels]":
        """Return the channels for queries and for inference, shared by all protocols."""
        from moorage_operator.probe.transport.grpc_channels import GrpcChannels  # noqa: PLC0415 -- imports gRPC, see above

        if self._calls is None:
            queries = GrpcChannels(self._credentials)
            self._calls = queries, GrpcChannels(self._credentials, INFERENCE_LIMIT_BYTES)
        return self._calls
