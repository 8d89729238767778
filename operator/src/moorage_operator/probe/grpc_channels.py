"""One unary gRPC call to a model server that is not trusted.

Plaintext, by pod address. A channel is kept while its server answers and dropped when it does not:
a kept one would wait out gRPC's own reconnect back-off (a second and more) while a model comes up,
and the next question is due in a tenth of that. Stands between the drivers that speak gRPC and the
network.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
import grpc.aio

from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.planned import ProbeTarget

from .driver import ANSWER_LIMIT_BYTES, quoted

CHANNELS = 512
"""Kept channels; one costs about 29 KiB and a file descriptor."""

DRAIN_SECONDS = 60.0
"""The longest deadline of a question; a dropped channel that is idle closes at once."""

_OPTIONS = (
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # Without it a dropped channel's back-off lives on in the process-wide pool of subchannels.
    ("grpc.use_local_subchannel_pool", 1),
)

_NOBODY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

R = TypeVar("R")


class GrpcChannels:
    """Asks servers over gRPC.

    Args:
        answer_limit_bytes: A larger answer is refused.
    """

    def __init__(self, answer_limit_bytes: int = ANSWER_LIMIT_BYTES) -> None:
        self._options = (*_OPTIONS, ("grpc.max_receive_message_length", answer_limit_bytes))
        self._channels: OrderedDict[str, grpc.aio.Channel] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def ask(
        self, target: ProbeTarget, method: str, request: Any, parse: Callable[[bytes], R]
    ) -> R | Answer:
        """The reply to a call of `package.Service/Method`, or why there is none."""
        call = self._channel(target).unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=parse,
        )
        try:
            return await call(request, timeout=target.timeout_seconds)
        except grpc.aio.AioRpcError as error:
            if error.code() in _NOBODY:
                self._drop(_address(target))
            return _meaning(target, method, error)

    async def close(self) -> None:
        """Close all channels."""
        channels = list(self._channels.values())
        self._channels.clear()
        await asyncio.gather(*(channel.close(None) for channel in channels), *self._closing)

    def _channel(self, target: ProbeTarget) -> grpc.aio.Channel:
        address = _address(target)
        channel = self._channels.pop(address, None)
        if channel is None:
            channel = grpc.aio.insecure_channel(address, options=self._options)
        self._channels[address] = channel
        while len(self._channels) > CHANNELS:
            self._drop(next(iter(self._channels)))
        return channel

    def _drop(self, address: str) -> None:
        channel = self._channels.pop(address, None)
        if channel is not None:
            # Other questions may be under way on it, and end by their own deadlines: closed at
            # once, it would cancel them, and with them the tasks that wait for them.
            task = asyncio.get_running_loop().create_task(channel.close(DRAIN_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _address(target: ProbeTarget) -> str:
    host = f"[{target.address}]" if ":" in target.address else target.address
    # The scheme keeps gRPC from asking DNS or reading a path into the address.
    scheme = "ipv6" if ":" in target.address else "ipv4"
    return f"{scheme}:{host}:{target.port}"


def _meaning(target: ProbeTarget, method: str, error: grpc.aio.AioRpcError) -> Answer:
    """What a gRPC status says about the server.

    Source: the gRPC status codes as model servers use them; NOT_FOUND for an unknown model,
    UNIMPLEMENTED when the service is another one.
    """
    code, said = error.code(), quoted(error.details() or "")
    where = f"{target.address}:{target.port}"
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            verdict, reason, told = _unavailable(where, said)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            verdict, reason = None, AnswerReason.TIMED_OUT
            told = f"no answer from {where} to {method} within {target.timeout_seconds:g} s"
        case grpc.StatusCode.UNIMPLEMENTED:
            verdict, reason = None, AnswerReason.WRONG_PROTOCOL
            told = f"the gRPC server at {where} has no {method}"
        case grpc.StatusCode.NOT_FOUND:
            verdict, reason, told = False, AnswerReason.MODEL_NOT_FOUND, said
        case grpc.StatusCode.RESOURCE_EXHAUSTED | grpc.StatusCode.INTERNAL:
            verdict, reason = None, AnswerReason.MALFORMED
            told = f"{method}: {code.name}: {said}"
        case _:
            verdict, reason = False, AnswerReason.NOT_READY
            told = said or f"{method} ended with {code.name}"
    return Answer(verdict, reason, told)


def _unavailable(where: str, said: str) -> tuple[None, AnswerReason, str]:
    # gRPC has one status for every broken connection; only its text knows of a peer that answered
    # with something else than HTTP/2.
    if "Failed parsing HTTP/2" in said:
        told = f"what listens on {where} does not speak gRPC: {said}"
        return None, AnswerReason.WRONG_PROTOCOL, told
    return None, AnswerReason.REFUSED, f"{where}: {said}"
