"""Tests a server with the public Triton client, and prints the results as one JSON object.

Runs in a separate environment, because its protobuf messages have the same names as the runtime's.

    triton.py http|grpc|http-asyncio|grpc-asyncio HOST:PORT
"""

import asyncio
import inspect
import json
import queue
import sys

import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.grpc.aio as over_grpc_asyncio
import tritonclient.http as over_http
import tritonclient.http.aio as over_http_asyncio
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

MODULES = {
    "http": over_http,
    "grpc": over_grpc,
    "http-asyncio": over_http_asyncio,
    "grpc-asyncio": over_grpc_asyncio,
}
IDENTITIES = {
    "identity_fp32": np.array([1.5, -2.25, 1e30], np.float32),
    "identity_fp16": np.array([0.5, -3.0], np.float16),
    "identity_uint8": np.array([0, 7, 255], np.uint8),
    "identity_2d_int32": np.array([[1, -2, 3], [4, 5, -6]], np.int32),
    "identity_bytes": np.array([b"", b"text", b"\xff\x00\x01", "é".encode()], np.object_),
}


class Asker:
    """The four clients behind one interface."""

    def __init__(self, transport, address):
        self.is_http = transport.startswith("http")
        # the asyncio modules re-export the classes of requests
        self.module = MODULES[transport]
        self.client = self.module.InferenceServerClient(address)

    async def call(self, name, *args, **kwargs):
        result = getattr(self.client, name)(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    async def infer(self, model, arrays, outputs=(), *, binary=True, **kwargs):
        base = over_http if self.is_http else over_grpc
        inputs = []
        for name, array in arrays.items():
            tensor = base.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
            if self.is_http:
                tensor.set_data_from_numpy(array, binary_data=binary)
            else:
                tensor.set_data_from_numpy(array)
            inputs.append(tensor)
        asked = [
            base.InferRequestedOutput(name, binary_data=binary)
            if self.is_http
            else base.InferRequestedOutput(name)
            for name in outputs
        ]
        return await self.call("infer", model, inputs, outputs=asked or None, **kwargs)

    async def stream(self, models, array):
        """The responses to the requests of one stream: an array each, or the error text."""
        tensor = over_grpc.InferInput("x", list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        found = queue.SimpleQueue()

        async def requests():
            for model in models:
                yield {"model_name": model, "inputs": [tensor], "request_id": model}

        if self.module is over_grpc_asyncio:
            async for answer in self.client.stream_infer(requests()):
                found.put(answer)
        else:
            self.client.start_stream(lambda result, error: found.put((result, error)))
            async for request in requests():
                self.client.async_stream_infer(**request)
            self.client.stop_stream()  # after every response has arrived
        return [
            result.as_numpy("y") if error is None else error.message()
            for result, error in (found.get(timeout=20) for _ in models)
        ]


async def ask(transport, address):
    asker = Asker(transport, address)
    seen = {
        "live": await asker.call("is_server_live"),
        "ready": await asker.call("is_server_ready"),
        "model ready": await asker.call("is_model_ready", "my_model"),
        "version ready": await asker.call("is_model_ready", "my_model", "v10"),
        "server": names(await asker.call("get_server_metadata")),
        "model": names(await asker.call("get_model_metadata", "my_model")),
    }
    for model, array in IDENTITIES.items():
        result = await asker.infer(model, {"x": array}, ["y"])
        seen[model] = bool(np.array_equal(result.as_numpy("y"), array))
    array = IDENTITIES["identity_fp32"]
    both = await asker.infer("two_out", {"x": array}, ["b", "a"], request_id="my id")
    seen["requested outputs"] = both.as_numpy("b").tolist() == [3] and bool(
        np.array_equal(both.as_numpy("a"), array)
    )
    response = both.get_response()
    seen["id"] = response["id"] if asker.is_http else response.id
    seen["all outputs"] = (await asker.infer("two_out", {"x": array})).as_numpy("b").tolist() == [
        3
    ]
    if asker.is_http:
        result = await asker.infer("identity_fp32", {"x": array}, ["y"], binary=False)
        seen["as JSON"] = bool(np.array_equal(result.as_numpy("y"), array))
        for algorithm in ("gzip", "deflate"):
            result = await asker.infer(
                "identity_fp32",
                {"x": array},
                ["y"],
                request_compression_algorithm=algorithm,
                response_compression_algorithm=algorithm,
            )
            seen[algorithm] = bool(np.array_equal(result.as_numpy("y"), array))
    else:
        result = await asker.infer("identity_fp32", {"x": array}, compression_algorithm="gzip")
        seen["gzip"] = bool(np.array_equal(result.as_numpy("y"), array))
        answers = await asker.stream(["identity_fp32", "nosuch", "identity_fp32"], array)
        seen["stream"] = [
            "nosuch" in found if isinstance(found, str) else bool(np.array_equal(found, array))
            for found in answers
        ] == [True, True, True]
    seen["unknown model"] = await refusal(asker.infer("nosuch", {"x": array}))
    seen["wrong shape"] = await refusal(asker.infer("identity_2d_int32", {"x": array}))
    await asker.call("close")
    return seen


def names(metadata):
    """Name and versions, or name and extensions, from either form of the client."""
    get = metadata.get if isinstance(metadata, dict) else lambda key: getattr(metadata, key, None)
    return [get("name"), sorted(get("versions") or get("extensions") or [])]


async def refusal(call):
    try:
        await call
    except InferenceServerException as error:
        return error.message()
    return None


if __name__ == "__main__":
    json.dump(asyncio.run(ask(*sys.argv[1:])), sys.stdout)
