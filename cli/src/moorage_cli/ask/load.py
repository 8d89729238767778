"""Sends requests at a fixed rate, whatever the server does, and records each one.

The schedule is fixed at the start, so a slow response delays no later request. Makes no decisions.
"""

import asyncio
import contextlib
import math
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager

import grpc.aio
import httpx

from moorage_cli.ask.access import Access
from moorage_cli.ask.inference.call import Call
from moorage_cli.ask.inference.request import Request
from moorage_cli.ask.wire import ANSWER_LIMIT, channel_options, host_name
from moorage_cli.judge.bench import Sample
from moorage_cli.printing.failures import reason_of

__all__ = ["Sender", "grpc_sender", "http_sender", "send_at_rate"]

Sender = Callable[[], AbstractAsyncContextManager[Callable[[], Awaitable[str]]]]
"""Opens the connections; the inner function sends one request and returns its problem."""

# More requests than that which wait for responses would fill the memory.
WAITING_LIMIT = 10_000
NOT_SENT = f"not sent: {WAITING_LIMIT} requests wait for a response"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def send_at_rate(sender: Sender, rate: float, seconds: float) -> tuple[list[Sample], bool]:
    """The requests that have ended, and whether the user has interrupted the rest."""
    return asyncio.run(_sent(sender, rate, seconds))


async def _sent(sender: Sender, rate: float, seconds: float) -> tuple[list[Sample], bool]:
    loop = asyncio.get_running_loop()
    samples: list[Sample] = []
    waiting: set[asyncio.Task[None]] = set()
    stop = asyncio.Event()
    with _stopped_by_signals(loop, stop):
        async with sender() as send:
            start = loop.time()

            async def one(scheduled: float) -> None:
                sent = loop.time() - start
                problem = await send()
                samples.append(Sample(scheduled, sent, loop.time() - start, problem))

            for number in range(math.ceil(rate * seconds)):
                scheduled = number / rate
                await _until(start + scheduled, stop)
                if stop.is_set():
                    break
                if len(waiting) >= WAITING_LIMIT:
                    now = loop.time() - start
                    samples.append(Sample(scheduled, now, now, NOT_SENT))
                    continue
                task = asyncio.create_task(one(scheduled))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
            await _rest(waiting, stop)
    return samples, stop.is_set()


async def _until(time: float, stop: asyncio.Event) -> None:
    """Wait until this time of the loop, or until it is to stop; a past time lets others run."""
    left = time - asyncio.get_running_loop().time()
    if left <= 0:
        await asyncio.sleep(0)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), left)


async def _rest(waiting: set[asyncio.Task[None]], stop: asyncio.Event) -> None:
    """Wait for the last responses, whose requests have a timeout; cancel them on an interrupt."""
    stopping = asyncio.create_task(stop.wait())
    left = set(waiting)
    while left and not stopping.done():
        await asyncio.wait({*left, stopping}, return_when=asyncio.FIRST_COMPLETED)
        left = {task for task in left if not task.done()}
    stopping.cancel()
    for task in left:
        task.cancel()
    await asyncio.gather(stopping, *left, return_exceptions=True)


@contextlib.contextmanager
def _stopped_by_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> Generator[None]:
    for each in SIGNALS:
        loop.add_signal_handler(each, stop.set)
    try:
        yield
    finally:
        for each in SIGNALS:
            loop.remove_signal_handler(each)


def http_sender(
    address: str, request: Request, body: bytes, access: Access, seconds: float, connections: int
) -> Sender:
    """Sends a POST over at most so many connections; a request waits for a free one."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncGenerator[Callable[[], Awaitable[str]]]:
        url = f"{access.scheme}://{address}{request.path}"
        headers = {"content-type": "application/json", **access.headers}
        async with httpx.AsyncClient(
            timeout=seconds,
            trust_env=False,
            verify=access.trust.context() if access.trust else True,
            limits=httpx.Limits(
                max_connections=connections, max_keepalive_connections=connections
            ),
        ) as http:

            async def send() -> str:
                try:
                    async with (
                        asyncio.timeout(seconds),
                        http.stream(
                            "POST",
                            url,
                            content=body,
                            headers=headers,
                            extensions=host_name(access),
                        ) as answer,
                    ):
                        size = 0
                        async for chunk in answer.aiter_raw():
                            size += len(chunk)
                            if size > ANSWER_LIMIT:
                                return f"the response is larger than {ANSWER_LIMIT >> 20} MiB"
                        return "" if answer.status_code == 200 else f"HTTP {answer.status_code}"
                except (httpx.TimeoutException, TimeoutError):
                    return f"no response within {seconds:g} s"
                except httpx.HTTPError as error:
                    return reason_of(error)

            yield send

    return opened


def grpc_sender(address: str, call: Call, access: Access, seconds: float) -> Sender:
    """Makes a unary call over one channel."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncGenerator[Callable[[], Awaitable[str]]]:
        options, credentials = channel_options(access)
        channel = (
            grpc.aio.insecure_channel(address, options)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, options)
        )
        async with channel:
            method = channel.unary_unary(call.method, None, None)  # bytes, not messages
            metadata = tuple(access.headers.items())

            async def send() -> str:
                try:
                    await method(call.body, timeout=seconds, metadata=metadata)
                except grpc.aio.AioRpcError as error:
                    return error.code().name
                return ""

            yield send

    return opened
