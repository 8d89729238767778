"""Every protocol's driver over every transport, each made when the first target needs it.

    Drivers -- OipRest, TensorflowRest, Grps(GrpsRest) -- HttpClient
          `--- OipGrpc, Grps(GrpsGrpc) -------------- GrpcChannels

Drivers keep no state of their own; the clients below them keep connections, and end here. gRPC and
protobuf are an eighth of what the process has in memory, and many installations have no server
that speaks either, so their modules are imported with the first driver that stands on them: a
tenth of a second, once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from .driver import INFERENCE_LIMIT_BYTES, Driver
from .http_client import HttpClient
from .oip_rest import OipRest
from .tensorflow_rest import TensorflowRest

if TYPE_CHECKING:
    from .grpc_channels import GrpcChannels

Way = tuple[str, str]
"""A protocol and a transport, as the spec names them."""


class Drivers(Mapping[Way, Driver]):
    """The drivers by the spec's protocol and transport, and the connections below them."""

    def __init__(self) -> None:
        self._http = HttpClient()
        self._calls: tuple[GrpcChannels, GrpcChannels] | None = None
        self._made: dict[Way, Driver] = {}
        self._make: Mapping[Way, Callable[[], Driver]] = {
            ("OpenInference", "HTTP"): lambda: OipRest(self._http),
            ("OpenInference", "GRPC"): self._make_oip_grpc,
            ("TensorFlowServing", "HTTP"): lambda: TensorflowRest(self._http),
            ("GRPS", "HTTP"): self._make_grps_rest,
            ("GRPS", "GRPC"): self._make_grps_grpc,
        }

    def __getitem__(self, way: Way) -> Driver:
        """The driver of a way, the same each time."""
        if way not in self._made:
            self._made[way] = self._make[way]()
        return self._made[way]

    def __iter__(self) -> Iterator[Way]:
        """Every way that there is a driver for."""
        return iter(self._make)

    def __len__(self) -> int:
        """How many ways there are."""
        return len(self._make)

    async def close(self) -> None:
        """Let connections go."""
        await self._http.close()
        for channels in self._calls or ():
            await channels.close()

    def _make_oip_grpc(self) -> Driver:
        from .oip_grpc import OipGrpc  # noqa: PLC0415 -- brings gRPC, see above

        return OipGrpc(*self._channels())

    def _make_grps_rest(self) -> Driver:
        from .grps import Grps  # noqa: PLC0415 -- brings protobuf, see above
        from .grps_rest import GrpsRest  # noqa: PLC0415 -- as above

        return Grps(GrpsRest(self._http))

    def _make_grps_grpc(self) -> Driver:
        from .grps import Grps  # noqa: PLC0415 -- brings protobuf, see above
        from .grps_grpc import GrpsGrpc  # noqa: PLC0415 -- brings gRPC, see above

        return Grps(GrpsGrpc(*self._channels()))

    def _channels(self) -> "tuple[GrpcChannels, GrpcChannels]":
        """Those of questions and those of inferences, shared by every protocol."""
        from .grpc_channels import GrpcChannels  # noqa: PLC0415 -- brings gRPC, see above

        if self._calls is None:
            self._calls = GrpcChannels(), GrpcChannels(INFERENCE_LIMIT_BYTES)
        return self._calls
