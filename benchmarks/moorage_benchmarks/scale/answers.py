"""One small server that answers for every pod: health and metadata of the inference protocol.

    python -m moorage_benchmarks.scale.answers PORT

It listens on all addresses, so each pod's own address reaches it. `PUT /silent/ADDRESS` makes the
server of one pod accept and never answer, `PUT /refusing/ADDRESS` makes its model not ready,
`DELETE` of the same path mends it.
"""

import asyncio
import sys
from typing import cast

import msgspec
import uvloop

SERVER = {"name": "fake", "version": "1", "extensions": ["statistics"]}


class Pods:
    """What ails which pod, by address: "silent" or "refusing"."""

    def __init__(self) -> None:
        self.ailments: dict[str, str] = {}

    def answer(self, address: str, method: str, path: str) -> bytes | None:
        """The whole answer; None where there is none."""
        if method in ("PUT", "DELETE"):
            _, ailment, whose = path.split("/")
            self.ailments.pop(whose, None)
            if method == "PUT":
                self.ailments[whose] = ailment
            return _answer(200, {})
        ailment = self.ailments.get(address)
        if ailment == "silent":
            return None
        *_, last = path.split("/")
        if "/models/" in path and last == "ready":
            ready = ailment != "refusing"
            return _answer(200 if ready else 503, {"ready": ready})
        return _answer(200, _metadata(last) if "/models/" in path else SERVER)


class Connection(asyncio.Protocol):
    """One connection; requests have no body, so a blank line ends each."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember which pod is asked."""
        self._transport = cast("asyncio.Transport", transport)
        self._address = str(transport.get_extra_info("sockname")[0])

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            line = head.split(b"\r\n", 1)[0].decode()
            method, path, _ = line.split(" ")
            answer = self._pods.answer(self._address, method, path)
            if answer is not None:
                self._transport.write(answer)


def _answer(code: int, document: object) -> bytes:
    body = msgspec.json.encode(document)
    head = f"HTTP/1.1 {code} Answer\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _metadata(name: str) -> dict[str, object]:
    pixels = {"name": "pixels", "datatype": "FP32", "shape": [-1, 64]}
    scores = {"name": "scores", "datatype": "FP32", "shape": [-1, 10]}
    return {
        "name": name,
        "versions": ["1"],
        "platform": "fake",
        "inputs": [pixels],
        "outputs": [scores],
    }


async def serve(port: int) -> None:
    """Answer until the process is ended."""
    pods = Pods()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(pods), "0.0.0.0", port, backlog=4096)
    print(f"answers on port {port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
