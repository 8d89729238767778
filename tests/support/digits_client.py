"""Queries the digits model for one picture over any of its protocols and checks the answer."""

import asyncio
import errno
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import grpc.aio

from moorage_runtime.codec._generated import oip_pb2
from support.grpc_traffic import METHOD, message
from support.manifests import sample

LABEL = 3
OIP_HTTP, OIP_GRPC, TFS, GRPS = "OIP HTTP", "OIP gRPC", "TFS REST", "GRPS"
PROTOCOLS = (OIP_HTTP, OIP_GRPC, TFS, GRPS)


@dataclass(frozen=True)
class Address:
    """The address of a server."""

    host: str
    http: int = 8000
    grpc: int = 8001


class DigitsClient:
    """An async context; every request has its own connection unless `keep` is set."""

    def __init__(self, *, timeout: float = 10.0, keep: bool = False) -> None:
        self._timeout = timeout
        self._keep = keep
        self._picture = sample(LABEL)
        pixels = self._picture["inputs"][0]["data"]
        rows = [pixels[start : start + 8] for start in range(0, 64, 8)]
        tensor = {"name": "image", "dtype": "DT_FLOAT32", "shape": [1, 8, 8]}
        self._bodies: Mapping[str, str] = {
            OIP_HTTP: json.dumps(self._picture),
            TFS: json.dumps({"instances": [rows]}),
            GRPS: json.dumps({"gtensors": {"tensors": [{**tensor, "flat_float32": pixels}]}}),
        }

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=self._timeout)
        connector = aiohttp.TCPConnector(force_close=not self._keep, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def ask(self, protocol: str, model: str, address: Address) -> str:
        """What is wrong with the answer; empty if it has the right label."""
        try:
            if protocol == OIP_GRPC:
                return await self._by_grpc(model, address)
            url = f"http://{address.host}:{address.http}{_PATHS[protocol].format(model)}"
            headers = {"Content-Type": "application/json"}
            async with self._session.post(
                url, data=self._bodies[protocol], headers=headers
            ) as answer:
                text = await answer.text()
                if answer.status != 200:
                    return f"status {answer.status}: {text[:200]}"
                label = _LABELS[protocol](json.loads(text))
        except TimeoutError:
            return f"no answer within {self._timeout:g} s"
        except aiohttp.ClientError as error:
            return _said(error)
        except (ValueError, KeyError, IndexError, StopIteration, TypeError) as error:
            return f"malformed answer: {error!r}"
        return "" if int(label) == LABEL else f"wrong label: {label!r}"

    async def _by_grpc(self, model: str, address: Address) -> str:
        # a channel would else share the connection of another to the same target
        alone = [("grpc.use_local_subchannel_pool", 1)]
        target = f"{address.host}:{address.grpc}"
        request = message(model, self._picture)
        async with grpc.aio.insecure_channel(target, options=alone) as channel:
            try:
                call = channel.unary_unary(METHOD)(request, timeout=self._timeout)
                answer = oip_pb2.ModelInferResponse.FromString(await call)
            except grpc.aio.AioRpcError as error:
                return f"{error.code().name}: {error.details()}"
            except asyncio.CancelledError:
                # grpc.aio raises this for a server's CANCELLED as well
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                return "CANCELLED by the server"
        names = [each.name for each in answer.outputs]
        at = names.index("label")
        if answer.raw_output_contents:
            label = int.from_bytes(answer.raw_output_contents[at][:8], "little")
        else:
            label = answer.outputs[at].contents.int64_contents[0]
        return "" if label == LABEL else f"wrong label: {label}"


_PATHS: Mapping[str, str] = {
    OIP_HTTP: "/v2/models/{}/infer",
    TFS: "/v1/models/{}:predict",
    GRPS: "/grps/v1/infer/predict?model={}",
}
_LABELS: Mapping[str, Callable[[Any], Any]] = {
    OIP_HTTP: lambda body: _named(body["outputs"], "label")["data"][0],
    TFS: lambda body: body["predictions"][0]["label"],
    GRPS: lambda body: _named(body["gtensors"]["tensors"], "label")["flat_int64"][0],
}


def _named(tensors: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(each for each in tensors if each["name"] == name)


def _said(error: aiohttp.ClientError) -> str:
    """What an error says, with the name of the system's error if there is one."""
    number = error.os_error.errno if isinstance(error, aiohttp.ClientConnectorError) else None
    name = errno.errorcode.get(number or 0, type(error).__name__)
    return f"{name}: {error}"
