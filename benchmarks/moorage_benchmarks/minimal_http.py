"""The least that serves a model over HTTP and JSON in Python: parse, infer, answer.

    python -m moorage_benchmarks.minimal_http MODEL_FILE

It checks nothing, counts nothing and limits nothing, so it is the floor of its libraries. Whatever
the path is, the one model answers.
"""

import asyncio
import sys
from pathlib import Path
from typing import cast

import httptools
import numpy as np
import onnxruntime as ort
import orjson
import uvloop

_DATATYPES = {"float32": "FP32", "int64": "INT64"}


class Model:
    """The model, from JSON to JSON."""

    def __init__(self, path: Path) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        self._names = [node.name for node in self._session.get_outputs()]

    def answer(self, body: bytes) -> bytes:
        """Every output of the one request."""
        feeds = {
            tensor["name"]: np.array(tensor["data"], np.float32).reshape(tensor["shape"])
            for tensor in orjson.loads(body)["inputs"]
        }
        arrays = map(np.asarray, self._session.run(self._names, feeds))
        outputs = [
            {
                "name": name,
                "datatype": _DATATYPES[array.dtype.name],
                "shape": array.shape,
                "data": array.reshape(-1),
            }
            for name, array in zip(self._names, arrays, strict=True)
        ]
        return orjson.dumps({"outputs": outputs}, option=orjson.OPT_SERIALIZE_NUMPY)


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand the bytes to the parser."""
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._body += data

    def on_message_complete(self) -> None:
        """Answer."""
        answer = self._model.answer(self._body)
        self._body = b""
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(answer), answer)
        )


async def serve(path: Path) -> None:
    """Serve until the end of the process."""
    model = Model(path)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(model), "127.0.0.1", 0)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
