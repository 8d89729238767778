"""Tests a server with the public KServe clients, and prints the results as one JSON object.

Runs in a separate environment, because its protobuf messages have the same names as the runtime's.

    kserve_sdk.py http|grpc|v1 HOST:PORT
"""

import asyncio
import json
import sys

import grpc
import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput

IDENTITIES = {
    "identity_fp32": np.array([1.5, -2.25, 1e30], np.float32),
    "identity_uint8": np.array([0, 7, 255], np.uint8),
    "identity_2d_int32": np.array([[1, -2, 3], [4, 5, -6]], np.int32),
    "identity_bytes": np.array([b"", b"text", "é".encode()], np.object_),
}
DATATYPES = {"float32": "FP32", "uint8": "UINT8", "int32": "INT32", "object": "BYTES"}


def request(model, array, *, binary, **members):
    tensor = InferInput("x", list(array.shape), DATATYPES[array.dtype.name])
    tensor.set_data_from_numpy(array, binary_data=binary)
    return InferRequest(model, [tensor], **members)


async def over_http(address):
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=1))
    url = f"http://{address}"
    seen = {
        "live": await client.is_server_live(url),
        "ready": await client.is_server_ready(url),
        "model ready": await client.is_model_ready(url, "my_model"),
    }
    for model, array in IDENTITIES.items():
        for binary in (False, True):
            asked = request(model, array, binary=binary, request_id="7")
            answer = await client.infer(url, asked, model)
            seen[f"{model} {binary}"] = same(answer, array) and answer.id == "7"
    outputs = [RequestedOutput("y", {"binary_data": True})]
    array = IDENTITIES["identity_fp32"]
    asked = request("identity_fp32", array, binary=True, request_outputs=outputs)
    seen["binary output"] = same(await client.infer(url, asked, "identity_fp32"), array)
    plain = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}
    answer = await client.infer(url, plain, "identity_fp32")
    seen["plain"] = answer.to_rest()[0]["outputs"][0]["data"] == [1.0]
    try:
        await client.infer(url, plain, "nosuch")
    except httpx.HTTPStatusError as error:
        seen["unknown model"] = str(error)
    await client.close()
    return seen


async def over_grpc(address):
    client = InferenceGRPCClient(address)
    seen = {
        "live": await client.is_server_live(),
        "ready": await client.is_server_ready(),
        "model ready": await client.is_model_ready("my_model"),
    }
    for model, array in IDENTITIES.items():
        for binary in (False, True):
            asked = request(model, array, binary=binary, request_id="7")
            answer = await client.infer(asked)
            seen[f"{model} {binary}"] = same(answer, array) and answer.id == "7"
    try:
        await client.infer(request("nosuch", IDENTITIES["identity_fp32"], binary=True))
    except grpc.RpcError as error:
        seen["unknown model"] = f"{error.code().name}: {error.details()}"
    await client.close()
    return seen


async def over_v1(address):
    client = InferenceRESTClient(RESTConfig(protocol="v1", retries=1))
    url = f"http://{address}"
    # its readiness request is specific to KServe and not part of TensorFlow Serving
    answer = await client.infer(url, {"instances": [1.0, 2.0]}, "mnist")
    seen = {"row": answer == {"predictions": [3.5, 4.0]}}
    try:
        await client.infer(url, {"instances": [1.0]}, "nosuch")
    except httpx.HTTPStatusError as error:
        seen["unknown model"] = str(error)
    await client.close()
    return seen


def same(answer, array):
    got = answer.outputs[0].as_numpy()
    if array.dtype == np.object_:
        got = np.array([v.encode() if isinstance(v, str) else v for v in got], np.object_)
    return got.shape == array.shape and bool(np.array_equal(got, array))


if __name__ == "__main__":
    ask = {"http": over_http, "grpc": over_grpc, "v1": over_v1}[sys.argv[1]]
    json.dump(asyncio.run(ask(sys.argv[2])), sys.stdout)
