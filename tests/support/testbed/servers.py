"""Model servers for pods without containers: each listens on one port of the loopback.

A pod's container port selects its server, so that edits of `runtime.ports` and of the image lead
to a real server. They answer for any model name over the Open Inference Protocol, and for
some over OpenAI's API. Two of them speak TLS and require a token.
"""

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from aiohttp import web

from support.certificates import Authority, Issued

HOST = "iris.example.com"
"""The host name of all certificates."""

NAMES = ("iris", "rose")
"""The models in the list of OpenAI's API."""


@dataclass
class Server:
    """The state of one server's model."""

    version: str
    ready: bool = True
    datatype: str = "FP32"
    issued: Issued | None = None
    token: str = ""
    inferences: int = 0
    port: int = field(default=0, init=False)

    async def answer(self, request: web.Request) -> web.Response:
        """One answer over HTTP."""
        path = request.path
        if not self._admits(request):
            return _json(401, {"error": "a bearer token is required"})
        if path == "/health" or path.startswith("/v1/"):
            return self._answer_as_openai(path)
        return self._answer_as_open_inference(path)

    def _admits(self, request: web.Request) -> bool:
        given = request.headers.get("Authorization")
        return not self.token or _is_open(request.path) or given == f"Bearer {self.token}"

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
    """Six servers as an async context.

    Attributes:
        good: Serves.
        other: Serves as well, another version on another port.
        broken: Its model never loads.
        wrong: Serves a model whose input has another datatype.
        secured: Serves with TLS and a token.
        resecured: Serves with a certificate of another CA and another token.
    """

    def __init__(self) -> None:
        self.good, self.other = Server("1"), Server("2")
        self.broken, self.wrong = Server("3", ready=False), Server("4", datatype="INT64")
        self.secured = Server("5", issued=Authority("first CA").issue(HOST), token="first")
        self.resecured = Server("6", issued=Authority("second CA").issue(HOST), token="second")
        self._runners: list[web.AppRunner] = []

    async def __aenter__(self) -> Self:
        plain = (self.good, self.other, self.broken, self.wrong)
        for server in (*plain, self.secured, self.resecured):
            await self._start(server)
        return self

    async def _start(self, server: Server) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        with tempfile.TemporaryDirectory() as folder:
            context = server.issued.server_context(Path(folder)) if server.issued else None
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        server.port = runner.addresses[0][1]
        self._runners.append(runner)

    async def __aexit__(self, *_: object) -> None:
        for runner in self._runners:
            await runner.cleanup()


def _is_open(path: str) -> bool:
    """Whether a path needs no token, as with the bundled runtime."""
    return path.startswith("/v2/health/") or path.endswith("/ready")


def _json(status: int, document: object) -> web.Response:
    return web.Response(status=status, text=json.dumps(document), content_type="application/json")
