"""The runtime's gRPC port under mixed calls: `python tests/soak/grpc_load.py [--help]`.

Good calls of all sizes, wrong calls, calls that are cancelled and connections that break off share
one runtime. Every answer is checked, and at the end memory, descriptors and threads must be flat.
"""

import argparse
import asyncio
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

import grpc.aio

from moorage_runtime.codec._generated import oip_pb2
from soak.processes import sample_all
from soak.slopes import LIMITS, slopes
from support.digits_client import LABEL
from support.grpc_traffic import METHOD, message
from support.manifests import DIGITS
from support.manifests import sample as picture_of
from support.runtime import running

SERVICE = METHOD.rpartition("/")[0]
MODEL = "digits"
ROWS = 2000
"""Pictures of a large call, which has 512 KB."""

CALLERS = 4
PAUSE_SECONDS = 0.005
TIMEOUT_SECONDS = 30.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SEED = 1

Call = Callable[[], Awaitable[str]]
"""Returns what is wrong, empty if nothing is."""


def _batch(request: bytes, rows: int) -> bytes:
    """The request with its picture repeated."""
    whole = oip_pb2.ModelInferRequest.FromString(request)
    tensor = whole.inputs[0]
    tensor.shape[0] = rows
    if whole.raw_input_contents:
        whole.raw_input_contents[0] *= rows
    else:
        pixels = list(tensor.contents.fp32_contents)
        del tensor.contents.fp32_contents[:]
        tensor.contents.fp32_contents.extend(pixels * rows)
    return whole.SerializeToString()


class Caller:
    """One client with a channel of its own, and every kind of call that it makes."""

    def __init__(self, target: str, rng: random.Random) -> None:
        self._target = target
        self._rng = rng
        self._channel = grpc.aio.insecure_channel(
            target, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._small = message(MODEL, picture_of(LABEL))
        self._large = _batch(self._small, ROWS)
        self.kinds: dict[str, Call] = {
            "small": lambda: self._infer(self._small, 1),
            "large": lambda: self._infer(self._large, ROWS),
            "compressed": lambda: self._infer(self._large, ROWS, grpc.Compression.Gzip),
            "several at once": self._several,
            "new connection": self._fresh,
            "cancelled": self._cancelled,
            "unknown model": lambda: self._refused(
                METHOD, message("absent", picture_of(LABEL)), grpc.StatusCode.NOT_FOUND
            ),
            "malformed": lambda: self._refused(
                METHOD, self._small[:-7], grpc.StatusCode.INVALID_ARGUMENT
            ),
            "unknown method": lambda: self._refused(
                f"{SERVICE}/Absent", b"", grpc.StatusCode.UNIMPLEMENTED
            ),
            "broken off": self._broken_off,
        }

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    async def _infer(
        self, request: bytes, rows: int, compression: grpc.Compression | None = None
    ) -> str:
        call = self._channel.unary_unary(METHOD)
        try:
            answer = await call(request, timeout=TIMEOUT_SECONDS, compression=compression)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        labels = _labels(answer)
        return "" if labels == [LABEL] * rows else f"wrong labels: {set(labels)}, {len(labels)}"

    async def _several(self) -> str:
        wrong = await asyncio.gather(*(self._infer(self._small, 1) for _ in range(32)))
        return next(filter(None, wrong), "")

    async def _fresh(self) -> str:
        other = Caller(self._target, self._rng)
        try:
            return await other.kinds["small"]()
        finally:
            await other.close()

    async def _cancelled(self) -> str:
        call = self._channel.unary_unary(METHOD)(self._large)
        await asyncio.sleep(self._rng.random() * 0.01)
        call.cancel()
        with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            await call
        return ""

    async def _refused(self, method: str, request: bytes, expected: grpc.StatusCode) -> str:
        try:
            await self._channel.unary_unary(method)(request, timeout=TIMEOUT_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is expected:
                return ""
            return f"{error.code().name} instead of {expected.name}: {error.details()}"
        return f"answered instead of {expected.name}"

    async def _broken_off(self) -> str:
        host, _, port = self._target.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        settings = b"\0\0\0\x04\0\0\0\0\0"
        headers = b"\0\0\x40\x01\x04\0\0\0\x01" + self._rng.randbytes(40)
        sent = PREFACE + settings + headers
        writer.write(sent[: self._rng.randint(1, len(sent))])
        with suppress(ConnectionError):
            await writer.drain()
        writer.transport.abort()
        return ""


def _labels(answer: bytes) -> list[int]:
    response = oip_pb2.ModelInferResponse.FromString(answer)
    at = [each.name for each in response.outputs].index("label")
    if response.raw_output_contents:
        raw = response.raw_output_contents[at]
        return [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]
    return list(response.outputs[at].contents.int64_contents)


async def load(transport: str, seconds: float) -> int:
    """The exit status; prints the report."""
    done: Counter[str] = Counter()
    failures: list[str] = []

    async def call_all(number: int) -> None:
        caller = Caller(runtime.grpc, random.Random(SEED + number))
        try:
            for kind in itertools.cycle(caller.kinds):
                if wrong := await caller.kinds[kind]():
                    failures.append(f"{time.strftime('%H:%M:%S')} {kind}: {wrong}")
                done[kind] += 1
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await caller.close()

    options = (f"--model-repository={DIGITS}", f"--model-name={MODEL}")
    with running(*options, f"--grpc-transport={transport}") as runtime:
        async with asyncio.TaskGroup() as group:
            callers = [group.create_task(call_all(number)) for number in range(CALLERS)]
            samples = await sample_all({"runtime": runtime.process.pid}, seconds)
            for task in callers:
                task.cancel()
    for kind, count in done.items():
        print(f"{kind}: {count}")
    steep = [slope for slope in slopes(samples["runtime"]) if not slope.is_flat]
    for slope in slopes(samples["runtime"]):
        limit = LIMITS[slope.figure]
        print(
            f"{slope.figure:12}{slope.per_period:+8.3f} ± {slope.error:.3f} per 10 minutes "
            f"({slope.first:.1f} to {slope.last:.1f}, limit {limit:g})"
        )
    for failure in failures[:20]:
        print(f"FAILED {failure}")
    print(f"{sum(done.values())} calls, {len(failures)} failures, {len(steep)} figures that grow")
    return 1 if failures or steep else 0


def main() -> int:
    """The exit status: 0 if everything is flat and every answer was right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--transport", choices=("native", "grpcio"), default="native")
    options = parser.parse_args()
    return asyncio.run(load(options.transport, options.seconds))


if __name__ == "__main__":
    sys.exit(main())
