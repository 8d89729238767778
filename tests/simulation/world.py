"""The environment of a history: one event loop, one cluster, its operators and its faults."""

import asyncio
import logging
import random
from collections.abc import Sequence

from simulation.api_server import ApiServer
from simulation.clock import SimulatedLoop
from simulation.controllers import Controllers
from simulation.network import Network, Weather
from simulation.nodes import Nodes
from simulation.process import Process
from simulation.servers import Servers
from simulation.stored import Object, Write

NAMESPACE = "shop"
USER = "user"
START_SECONDS = 1.0

CLOCK_SHARE = 0.1
"""The share of worlds in which the clocks of the operators' machines are wrong."""

CLOCK_ERRORS = (-3600.0, -60.0, -1.0, 0.0, 1.0, 60.0, 3600.0)
"""By how many seconds they are ahead."""

CORRECTED_SECONDS = 600.0
"""When a clock is set to another time at the latest."""


class World:
    """A cluster with operators, determined by a seed.

    Args:
        seed: The seed of all random numbers, including the operators'.
        leaders: The number of processes that share a lease; a single process needs none.
        has_runtimes: Whether the kind InferenceRuntime is installed.
        selector: Label selector of the models that the operators serve; "" for all.
        routes: The kinds of routes of the Gateway API that are installed.
        changes_kinds: Whether these come and go.

    Attributes:
        history: One line per action and write.
        troubles: Exits of processes, and the errors that they logged.
        has_wrong_clocks: Whether the clocks of the operators' machines are wrong.
    """

    def __init__(
        self,
        seed: object,
        leaders: int = 1,
        *,
        has_runtimes: bool = False,
        selector: str = "",
        routes: Sequence[str] = (),
        changes_kinds: bool = False,
    ) -> None:
        random.seed(f"operator {seed}")
        self.chance = random.Random(f"world {seed}")
        self.loop = SimulatedLoop()
        self.history: list[str] = []
        self.troubles: list[str] = []
        self.weather = Weather()
        self.api = ApiServer(self.loop.time)
        self.servers = Servers(self.loop.time, self.chance)
        luck = random.Random(f"nodes {seed}")
        self.nodes = Nodes(self.api, self.servers, luck, self.loop)
        self.controllers = Controllers(self.api, self.servers, self.nodes, self.chance, self.loop)
        self.api.followers.append(self._note_write)
        self._clocks = random.Random(f"clocks {seed}")
        self.has_wrong_clocks = self._clocks.random() < CLOCK_SHARE
        self.leaders = leaders
        self._has_runtimes = has_runtimes
        self.selector = selector
        self.routes = routes
        self._changes_kinds = changes_kinds
        self.processes: list[Process | None] = [None] * leaders
        self._starts = 0
        self._was_cut = False
        for slot in range(leaders):
            self.start(slot)

    def note(self, line: str) -> None:
        """Add a line to the history."""
        self.history.append(f"{self.loop.time():9.3f} {line}")

    def run(self, seconds: float) -> None:
        """Advance the time."""
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def start(self, slot: int) -> None:
        """Start the operator of a slot unless it is running."""
        if self.processes[slot] is not None:
            return
        self._starts += 1
        who = f"operator-{self._starts}"
        network = Network(self.api, self.weather, self.chance, who, self.note)
        identity = who if self.leaders > 1 else ""
        process = Process(
            network,
            self.servers,
            self.loop,
            identity,
            self._ended,
            has_runtimes=self._has_runtimes,
            selector=self.selector,
            routes=self.routes,
            changes_kinds=self._changes_kinds,
        )
        self.processes[slot] = process
        self.note(f"{who}: starts")
        if self.has_wrong_clocks:
            self._set_clock(process)
            seconds = self._clocks.random() * CORRECTED_SECONDS
            self.loop.call_later(seconds, lambda: self._set_clock(process))
        process.start()

    def kill(self, slot: int, restart_seconds: float) -> None:
        """Kill the operator of a slot in the middle of an operation; it restarts later."""
        process = self.processes[slot]
        if process is None:
            return
        self.note(f"{process.network.who}: is killed")
        process.kill()
        self.processes[slot] = None
        self.loop.call_later(restart_seconds, lambda: self.start(slot))

    @property
    def is_disturbed(self) -> bool:
        """Whether an operator may know the cluster as it was long ago."""
        weather = self.weather
        late = weather.requests, weather.events, weather.lags, weather.slow
        return self._was_cut or any(late)

    def cut(self, slot: int, seconds: float, *, reset: bool) -> None:
        """Disconnect the operator of a slot from the network for a while."""
        process = self.processes[slot]
        if process is not None:
            self._was_cut = True
            self.note(f"{process.network.who}: is cut off for {seconds:.1f} s")
            process.network.cut()
            self.loop.call_later(seconds, lambda: self._mend(process, reset=reset))

    @property
    def leading(self) -> int:
        """Return the slot of the leader, the first slot if there is none."""
        holders = [each["spec"].get("holderIdentity") for each in self.api.all("leases")]
        for slot, process in enumerate(self.processes):
            if process is not None and process.identity in holders:
                return slot
        return 0

    def freeze(self, slot: int, seconds: float) -> None:
        """Suspend the operator of a slot for a while."""
        process = self.processes[slot]
        if process is not None:
            self._was_cut = True
            self.note(f"{process.network.who}: is frozen for {seconds:.1f} s")
            process.freeze()
            self.loop.call_later(seconds, lambda: self._thaw(process))

    def clear(self) -> None:
        """End all faults."""
        self.weather.clear()
        for process in self.processes:
            if process is not None:
                process.network.mend()
                process.thaw()

    def close(self) -> None:
        """Stop all processes."""
        for process in self.processes:
            if process is not None:
                process.kill()
        self.run(0)
        self.run(0)
        self.loop.close()

    def _set_clock(self, process: Process) -> None:
        process.clock_error = self._clocks.choice(CLOCK_ERRORS)
        who = process.network.who
        self.note(f"{who}: its clock is {process.clock_error:.0f} s ahead")

    def _mend(self, process: Process, *, reset: bool) -> None:
        if process in self.processes:
            process.network.mend(reset=reset)

    def _thaw(self, process: Process) -> None:
        if process in self.processes:
            self.note(f"{process.network.who}: resumes")
            process.thaw()

    def _ended(self, process: Process, why: str) -> None:
        self.note(f"{process.network.who}: ends: {why}")
        if "LeadershipLost" not in why:
            self.troubles.append(f"{process.network.who} ended: {why}")
        slot = self.processes.index(process)
        self.kill(slot, START_SECONDS)

    def _note_write(self, write: Write) -> None:
        if write.plural in {"events", "leases"}:
            return
        after = f" {summary(write.after)}" if write.part and write.after else ""
        part = f"/{write.part}" if write.part else ""
        self.note(f"{write.who}: {write.verb} {write.plural}{part} {write.key[1]}{after}")


def summary(body: Object) -> str:
    """The conditions of a status in one line."""
    conditions = (body.get("status") or {}).get("conditions") or []
    return " ".join(f"{each['type']}={each['status']}/{each['reason']}" for each in conditions)


class Errors(logging.Handler):
    """Collects the operators' logs of level error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1]:
            text += f": {record.exc_info[1]!r}"
        self.lines.append(text)
