"""Simulated model servers: the server at a pod's address, and a driver that queries it.

The image determines the behavior of a server. The operator's poller uses `Asking` instead of the
protocol drivers.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from moorage_operator.api.smoke_tests import SmokeTest
from moorage_operator.probe.driver import Described
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, ServerInfo, TensorInfo
from moorage_operator.values.json_answers import JsonAnswer
from moorage_operator.values.plan import ProbeTarget

SPOKEN = ("OpenInference", "OpenAI", "None")
"""Protocols that every server speaks."""

YES = Answer(verdict=True, reason=AnswerReason.READY)


@dataclass(frozen=True, slots=True)
class Image:
    """The behavior of a container of an image.

    Attributes:
        version: The version of its model.
        load_seconds: The time to load the model.
        loads: Whether the model loads.
        crashes: Whether the container crashes while it loads the model.
        pulls: Whether the image exists.
        datatype: The datatype of the model's input.
    """

    version: str = "1"
    load_seconds: float = 0.5
    loads: bool = True
    crashes: bool = False
    pulls: bool = True
    datatype: str = "FP32"


IMAGES = {
    "example/good:1": Image(),
    "example/good:2": Image(version="2", load_seconds=1.5),
    "example/slow:1": Image(version="3", load_seconds=25.0),
    "example/bad:1": Image(loads=False),
    "example/crash:1": Image(crashes=True),
    "example/missing:1": Image(pulls=False),
    "example/wrong:1": Image(version="4", datatype="INT64"),
}
SERVING = ("example/good:1", "example/good:2", "example/slow:1")
"""Images that serve a model that every contract of this suite accepts."""


@dataclass(slots=True)
class Server:
    """One run of a container."""

    image: Image
    started: float

    def serves(self, now: float) -> bool:
        """Whether its model is loaded."""
        image = self.image
        return image.loads and not image.crashes and now >= self.started + image.load_seconds


class Servers:
    """The servers by address.

    Args:
        clock: Simulated seconds.
        chance: The seed's random numbers.

    Attributes:
        running: The servers by address.
        lost: Since when addresses have been on a lost node.
    """

    def __init__(self, clock: Callable[[], float], chance: random.Random) -> None:
        self.running: dict[str, Server] = {}
        self.lost: dict[str, float] = {}
        self._clock = clock
        self._chance = chance

    def serves(self, address: str) -> bool:
        """Whether a model is served at an address."""
        server = None if address in self.lost else self.running.get(address)
        return server is not None and server.serves(self._clock())

    async def ask(self, address: str) -> Server | None:
        """Return the server at the address, None if there is none; a lost one never answers."""
        await asyncio.sleep(0.001 + 0.004 * self._chance.random())
        if address in self.lost:
            await asyncio.Event().wait()
        return self.running.get(address)

    def now(self) -> float:
        """Simulated seconds."""
        return self._clock()


class Asking:
    """A driver that queries simulated servers, for one process.

    Args:
        servers: The servers.
        connected: Waits until the process reaches the network.
    """

    def __init__(self, servers: Servers, connected: Callable[[], Any]) -> None:
        self._servers = servers
        self._connected = connected

    async def live(self, target: ProbeTarget) -> Answer:
        return await self._judge(target, lambda _: YES)

    async def ready(self, target: ProbeTarget) -> Answer:
        return await self.model_ready(target)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        def judge(server: Server) -> Answer:
            if server.serves(self._servers.now()):
                return YES
            if not server.image.loads:
                return Answer(
                    verdict=False, reason=AnswerReason.LOAD_FAILED, message="file is corrupt"
                )
            return Answer(verdict=False, reason=AnswerReason.LOADING)

        return await self._judge(target, judge)

    async def describe(self, target: ProbeTarget) -> Described:
        server = await self._reach(target)
        if not isinstance(server, Server) or not server.serves(self._servers.now()):
            return Described()
        if target.way.protocol == "None":
            return Described()
        image = server.image
        tensor = TensorInfo("x", image.datatype, (-1, 4))
        model = ModelInfo(target.model_name, (image.version,), "simulated", (tensor,))
        return Described(ServerInfo("simulated", "1"), model)

    async def speaks(self, target: ProbeTarget) -> Answer:
        evidence = Answer(verdict=True, reason=AnswerReason.READY, message="GET /v2 answers")
        return await self._judge(target, lambda _: evidence)

    async def bring_online(self, target: ProbeTarget) -> bool:
        del target
        return False

    async def infer(self, target: ProbeTarget, inputs: Sequence[Any]) -> Answer:
        raise NotImplementedError  # no history has smoke tests with tensors

    async def send(self, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
        del test
        server = await self._reach(target)
        if isinstance(server, Answer):
            return server
        return JsonAnswer({"served": server.serves(self._servers.now())}, 20)

    async def _judge(self, target: ProbeTarget, judge: Callable[[Server], Answer]) -> Answer:
        server = await self._reach(target)
        return server if isinstance(server, Answer) else judge(server)

    async def _reach(self, target: ProbeTarget) -> Server | Answer:
        try:
            async with asyncio.timeout(target.timeout_seconds):
                await self._connected()
                server = await self._servers.ask(target.address)
        except TimeoutError:
            return Answer(None, AnswerReason.TIMED_OUT, "no answer")
        if server is None:
            return Answer(None, AnswerReason.REFUSED, "connection refused")
        return server


class Foreign(Asking):
    """A driver of a protocol that the simulated servers do not speak."""

    async def _judge(self, target: ProbeTarget, judge: Callable[[Server], Answer]) -> Answer:
        del judge
        server = await self._reach(target)
        wrong = Answer(None, AnswerReason.WRONG_PROTOCOL, "an answer of another protocol")
        return server if isinstance(server, Answer) else wrong


class Drivers(dict[tuple[str, str], Asking]):
    """The drivers of one process by protocol and transport."""

    def __init__(self, servers: Servers, connected: Callable[[], Any]) -> None:
        asking = Asking(servers, connected)
        super().__init__({(protocol, "HTTP"): asking for protocol in SPOKEN})
        self._foreign = Foreign(servers, connected)

    def __missing__(self, _: tuple[str, str]) -> Asking:
        return self._foreign
