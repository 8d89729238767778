"""Model servers for pods without containers: each listens on one port of the loopback.

A pod's container port selects its server, so that edits of `runtime.ports` and of the image lead
to a real server. They answer for any model name over the Open Inference Protocol, and for
some over OpenAI's API.
"""

import json
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

NAMES = ("iris", "rose")
"""The models in the list of OpenAI's API."""


@dataclass
class Server:
    """The state of one server's model."""

    version: str
    ready: bool = True
    datatype: str = "FP32"
    inferences: int = 0
    port: int = field(default=0, init=False)

    async def answer(self, request: web.Request) -> web.Response:
        """One answer over HTTP."""
        path = request.path
        if path == "/health" or path.startswith("/v1/"):
            return self._answer_as_openai(path)
        return self._answer_as_open_inference(path)

    def _answer_as_open_inference(self, path: str) -> web.Response:
        if path == "/v2":
            return _json(200, {"name": "testbed", "version": self.version, "extensions": []})
        if path.startswith("/v2/health/"):
            return web.Response()
        name = path.removeprefix("/v2/models/").split("/")[0]
        if path.endswith("/infer"):
            if not self.ready:
                return _json(503, {"error": "file is corrupt"})
            self.inferences += 1
            output = {"name": "y", "datatype": "FP32", "shape": [1], "data": [1]}
            return _json(200, {"model_name": name, "outputs": [output]})
        if path.endswith("/ready"):
            said = {"ready": self.ready} | ({} if self.ready else {"error": "file is corrupt"})
            return _json(200 if self.ready else 503, said)
        tensor = {"name": "x", "datatype": self.datatype, "shape": [-1, 4]}
        output = {"name": "y", "datatype": "FP32", "shape": [-1]}
        document = {"name": name, "versions": [self.version], "platform": "testbed"}
        return _json(200, document | {"inputs": [tensor], "outputs": [output]})

    def _answer_as_openai(self, path: str) -> web.Response:
        if path == "/v1/models":
            listed = [{"id": name, "owned_by": "testbed"} for name in NAMES]
            return _json(200, {"object": "list", "data": listed})
        if not self.ready:
            return _json(503, {"error": {"message": "file is corrupt"}})
        self.inferences += path != "/health"
        return _json(200, {"choices": [{"message": {"content": f"version {self.version}"}}]})


class Servers:
    """Four servers as an async context.

    Attributes:
        good: Serves.
        other: Serves as well, another version on another port.
        broken: Its model never loads.
        wrong: Serves a model whose input has another datatype.
    """

    def __init__(self) -> None:
        self.good, self.other = Server("1"), Server("2")
        self.broken, self.wrong = Server("3", ready=False), Server("4", datatype="INT64")
        self._runners: list[web.AppRunner] = []

    async def __aenter__(self) -> Self:
        for server in (self.good, self.other, self.broken, self.wrong):
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", server.answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            server.port = runner.addresses[0][1]
            self._runners.append(runner)
        return self

    async def __aexit__(self, *_: object) -> None:
        for runner in self._runners:
            await runner.cleanup()


def _json(status: int, document: object) -> web.Response:
    return web.Response(status=status, text=json.dumps(document), content_type="application/json")
