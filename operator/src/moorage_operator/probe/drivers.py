"""Every protocol's driver over every transport, put together.

    Drivers -- OipRest, TensorflowRest, Grps(GrpsRest) -- HttpClient
          `--- OipGrpc, Grps(GrpsGrpc) -------------- GrpcChannels

Drivers keep no state of their own; the two clients below them keep connections, and end here.
"""

from collections.abc import Mapping

from .driver import INFERENCE_LIMIT_BYTES, Driver
from .grpc_channels import GrpcChannels
from .grps import Grps
from .grps_grpc import GrpsGrpc
from .grps_rest import GrpsRest
from .http_client import HttpClient
from .oip_grpc import OipGrpc
from .oip_rest import OipRest
from .tensorflow_rest import TensorflowRest


class Drivers:
    """The drivers by the spec's protocol and transport, and the connections below them."""

    def __init__(self) -> None:
        self._http = HttpClient()
        self._channels = GrpcChannels()
        self._inference = GrpcChannels(INFERENCE_LIMIT_BYTES)
        self.by_way: Mapping[tuple[str, str], Driver] = {
            ("OpenInference", "HTTP"): OipRest(self._http),
            ("OpenInference", "GRPC"): OipGrpc(self._channels, self._inference),
            ("TensorFlowServing", "HTTP"): TensorflowRest(self._http),
            ("GRPS", "HTTP"): Grps(GrpsRest(self._http)),
            ("GRPS", "GRPC"): Grps(GrpsGrpc(self._channels, self._inference)),
        }

    async def close(self) -> None:
        """Let connections go."""
        await self._http.close()
        await self._channels.close()
        await self._inference.close()
