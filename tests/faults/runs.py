"""Plays scenarios, first without a fault to find their points, then once per point and fault.

scenario without a fault --> points, end state --> injections --> runs --> verdicts
"""

import asyncio
import itertools
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from support.testbed.api import Object, Refused, kubeconfig_for
from support.testbed.end_state import differences, end_state
from support.testbed.honesty import Honesty
from support.testbed.operators import Operator
from support.testbed.proxy import EVENT_FAULTS, WRITE_FAULTS, Injection, Point, Proxy
from support.testbed.world import World

from .scenarios import NAME, Scenario, Stage, runtime_of, strays, unexpected

QUIET_SECONDS = 1.5
"""A run has ended after this time without writes, if its end state is the expected one."""

BASELINE_QUIET_SECONDS = 5.0
"""The same for a run without a fault, whose end state is the expected one of the others."""

SETTLE_SECONDS = 45.0
"""The largest time from the end of the scenario to the expected end state."""

RUN_SECONDS = 240.0
_numbers = itertools.count(1)


@dataclass
class Outcome:
    """The result of one run.

    Attributes:
        happened: Whether the run reached the point of the fault.
        failures: Violated properties; none if the run passed.
        ready_seen: How often `Ready=True` was written, each checked with an inference.
    """

    scenario: str
    injection: Injection | None
    happened: bool = False
    failures: list[str] = field(default_factory=list)
    ready_seen: int = 0
    points: list[Point] = field(default_factory=list)
    state: Object = field(default_factory=dict)


def injections(points: Iterable[Point]) -> list[Injection]:
    """Every fault at every point, in the order of the points."""
    return [
        Injection(point, fault)
        for point in points
        for fault in (WRITE_FAULTS if point.what == "write" else EVENT_FAULTS)
    ]


async def play(
    world: World, scenario: Scenario, injection: Injection | None, expected: Object | None
) -> Outcome:
    """One run in its own namespace; without an expected state it determines that."""
    outcome = Outcome(scenario.name, injection)
    namespace = f"run-{next(_numbers)}"
    try:
        async with asyncio.timeout(RUN_SECONDS):
            await world.api.make_namespace(namespace)
            await _play(world, scenario, injection, expected, outcome, namespace)
    except (TimeoutError, Refused, RuntimeError, OSError) as error:
        outcome.failures.append(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 -- one run's defect must not hide the others' verdicts
        outcome.failures.append(traceback.format_exc())
    return outcome


async def _play(
    world: World,
    scenario: Scenario,
    injection: Injection | None,
    expected: Object | None,
    outcome: Outcome,
    namespace: str,
) -> None:
    operators: list[Operator] = []
    restarts: set[asyncio.Task[None]] = set()

    def kill(door: int) -> None:
        operators[door].kill()
        restarts.add(asyncio.create_task(_restart(operators[door])))

    runtime = runtime_of(namespace)
    async with Proxy(world.endpoint, injection, kill, scenario.operators, runtime) as proxy:
        for door, url in enumerate(proxy.urls):
            config = kubeconfig_for(
                url, world.kubeconfig, world.folder / f"{namespace}-{door}.json"
            )
            log = world.folder / f"{namespace}-{door}.log"
            options = ["--namespaces", namespace]
            if scenario.operators > 1:
                options += ["--lease-namespace", namespace, "--lease-name", "operator"]
            operators.append(Operator(config, log, *options))
        stage = Stage(world, namespace, operators)
        try:
            for operator in operators:
                await operator.start()
            await operators[0].ready()
            async with Honesty(world.api, namespace) as honesty:
                await scenario.prepare(stage)
                proxy.begin()
                await scenario.play(stage)
                await asyncio.gather(*restarts)
                state = await _settled(stage, proxy, expected)
            outcome.ready_seen, outcome.happened = honesty.seen, proxy.record.happened
            outcome.points, outcome.state = proxy.record.points, state
            outcome.failures += [f"not honest: {lie}" for lie in honesty.lies]
            outcome.failures += [f"{name} has no owner" for name in strays(state)]
            outcome.failures += unexpected(scenario, state)
            if expected is not None:
                outcome.failures += differences(expected, state)
            dead = [each for each in operators if not each.is_running]
            outcome.failures += [f"an operator ended: {each.log.name}" for each in dead]
            outcome.failures += [
                f"the operator's log: {line}" for each in operators for line in each.errors()
            ]
            await world.api.delete("InferenceModel", namespace, NAME)
            await stage.gone("Deployment")
            await world.api.delete("InferenceRuntime", "", runtime)
        finally:
            for operator in operators:
                await operator.stop()
            # A fault can kill an operator in its last moments, which then starts again.
            await asyncio.gather(*restarts, return_exceptions=True)
            for operator in operators:
                await operator.stop()


async def _restart(operator: Operator) -> None:
    """Restart a terminated container like a kubelet."""
    await operator.ended()
    await operator.start()


async def _settled(stage: Stage, proxy: Proxy, expected: Object | None) -> Object:
    """Wait until nothing is written and return the end state, or the last one after a timeout."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECONDS
    seconds = QUIET_SECONDS if expected is not None else BASELINE_QUIET_SECONDS
    while True:
        quiet = loop.time() - proxy.record.last_write_at > seconds
        state = await end_state(stage.api, stage.namespace, stage.world.optional)
        if quiet and (expected is None or not differences(expected, state)):
            return state
        if loop.time() > deadline:
            return state
        await asyncio.sleep(0.3)


async def play_all(
    world: World,
    work: Sequence[tuple[Scenario, Injection, Object]],
    at_once: int,
    report: "Report",
) -> None:
    """Play many runs, some at once; each outcome is reported when it is there."""
    queue = iter(work)

    async def worker() -> None:
        for scenario, injection, expected in queue:
            report.add(await play(world, scenario, injection, expected))

    await asyncio.gather(*(worker() for _ in range(at_once)))


class Report:
    """Counts runs, and prints each that failed, and the progress."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Take one run's outcome."""
        outcome.state, outcome.points = {}, []
        self.outcomes.append(outcome)
        if outcome.failures:
            failures = "\n    ".join(each[:600] for each in outcome.failures[:8])
            print(f"FAILED {outcome.scenario}: {outcome.injection}\n    {failures}", flush=True)
        if len(self.outcomes) % 100 == 0:
            print(f"{len(self.outcomes)} runs, {len(self.failed)} failed", flush=True)

    @property
    def failed(self) -> list[Outcome]:
        """Runs that did not hold."""
        return [each for each in self.outcomes if each.failures]

    def summary(self) -> str:
        """One line for each scenario and one for all."""
        names = dict.fromkeys(each.scenario for each in self.outcomes)
        lines = [
            _line(name, [each for each in self.outcomes if each.scenario == name])
            for name in names
        ]
        return "\n".join([*lines, _line("all", self.outcomes)])


def _line(name: str, outcomes: Sequence[Outcome]) -> str:
    points = {each.injection.point for each in outcomes if each.injection}
    met = [each for each in outcomes if each.happened]
    held = [each for each in met if not each.failures]
    failed = [each for each in outcomes if each.failures]
    ready = sum(each.ready_seen for each in outcomes)
    return (
        f"{name}: {len(points)} points, {len(outcomes)} runs, fault met in {len(met)}, "
        f"{len(held)} of those held, {len(failed)} failed, Ready=True checked {ready} times"
    )
