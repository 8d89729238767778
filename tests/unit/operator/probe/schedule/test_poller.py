import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from moorage_operator.api.smoke_tests import ExpectedTensor, InputTensor, SmokeTest
from moorage_operator.probe.driver import Described
from moorage_operator.probe.protocols.drivers import DriverKey
from moorage_operator.probe.reading import cost
from moorage_operator.probe.schedule import interrogation, smoke_runner
from moorage_operator.probe.schedule.poller import STARTING_SECONDS, Edges, Polled, Poller
from moorage_operator.values.answers import (
    Answer,
    AnswerReason,
    ModelInfo,
    ProbeResult,
    ServerInfo,
)
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.plan import PollPace, ProbeTarget
from moorage_operator.values.smoke import Outputs, SmokeTask, SmokeVerdict
from support.probe_targets import target

WAY = ("OpenInference", "HTTP")
KEY = ObjectKey("ns", "iris")
YES = Answer(verdict=True, reason=AnswerReason.READY)
NO = Answer(verdict=False, reason=AnswerReason.NOT_READY)
REFUSED = Answer(verdict=None, reason=AnswerReason.REFUSED)
DESCRIBED = Described(ServerInfo("s"), ModelInfo("iris"))


class Server:
    """A driver with answers of the test that counts the queries."""

    def __init__(self, answer: Answer = YES) -> None:
        self.answer = answer
        self.broken = False
        self.described = DESCRIBED
        self.outputs: Outputs | Answer = {"y": (1,)}
        self.questions: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.metadata_gate = asyncio.Event()
        self.metadata_gate.set()
        self.infer_gate = asyncio.Event()
        self.infer_gate.set()
        self.asked = asyncio.Event()

    async def live(self, _: ProbeTarget) -> Answer:
        self.questions.append("live")
        return YES

    async def ready(self, _: ProbeTarget) -> Answer:
        self.questions.append("ready")
        return YES

    async def model_ready(self, _: ProbeTarget) -> Answer:
        self.questions.append("model")
        self.asked.set()
        await self.gate.wait()
        if self.broken:
            raise RuntimeError("a defect")
        return self.answer

    async def describe(self, _: ProbeTarget) -> Described:
        self.questions.append("metadata")
        await self.metadata_gate.wait()
        return self.described

    async def speaks(self, _: ProbeTarget) -> Answer:
        self.questions.append("speaks")
        return YES

    async def bring_online(self, _: ProbeTarget) -> bool:
        self.questions.append("online")
        self.answer = YES
        return True

    async def infer(self, target: ProbeTarget, _: Sequence[InputTensor]) -> Outputs | Answer:
        self.questions.append(f"infer within {target.timeout_seconds:g}")
        await self.infer_gate.wait()
        return self.outputs

    @property
    def polls(self) -> int:
        return self.questions.count("model")


class Results:
    """Takes what the poller delivers."""

    def __init__(self) -> None:
        self.all: list[ProbeResult] = []
        self.polled: list[Polled] = []
        self.smoked: list[tuple[str, float]] = []
        self.forgotten: list[str] = []
        self._changed = asyncio.Event()

    def take(self, key: ObjectKey, result: ProbeResult) -> None:
        if key == KEY:
            self.all.append(result)
        self._changed.set()

    def count(self, polled: Polled) -> None:
        self.polled.append(polled)
        self._changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


async def asked(
    server: Server, previous: ProbeResult | None = None, **fields: bool
) -> ProbeResult:
    """The last result of one interrogation."""
    results = [
        result
        async for result in interrogation.interrogate(
            {WAY: server},
            target(**fields),
            previous,
            describe=False,
        )
    ]
    return results[-1]


@asynccontextmanager
async def polling(
    server: Server,
    polls_a_second: float = 1000.0,
    clock: Callable[[], float] | None = None,
    others: Mapping[DriverKey, Server] | None = None,
) -> AsyncIterator[tuple[Poller, Results]]:
    results = Results()
    edges = Edges(
        clock=clock or asyncio.get_running_loop().time,
        jitter=lambda: 0.5,
        polled=results.count,
        smoked=lambda verdict, seconds: results.smoked.append((str(verdict), seconds)),
    )
    poller = Poller(
        {WAY: server, ("TensorFlowServing", "HTTP"): server, **(others or {})},
        results.take,
        results.forgotten.append,
        edges,
        polls_a_second=polls_a_second,
    )
    task = asyncio.ensure_future(poller.run())
    try:
        yield poller, results
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_new_target_is_polled_at_once_with_its_metadata() -> None:
    async with polling(Server()) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 1000)
        await results.until(lambda: results.all)

    (result,) = results.all
    assert (result.live, result.ready, result.model_ready) == (YES, YES, YES)
    assert (result.server, result.model) == (DESCRIBED.server, DESCRIBED.model)
    assert (result.pod_uid, result.container_id) == ("pod", "containerd://1")


async def test_an_unchanged_answer_is_not_delivered_again() -> None:
    async with polling(Server()) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) >= 4)

    assert len(results.all) == 1


async def test_a_ready_model_needs_one_query_per_poll() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) >= 3)

    assert server.questions[:3] == ["model", "ready", "metadata"]
    assert server.questions[3] == "speaks"
    assert set(server.questions[4:]) == {"model"}


async def test_metadata_that_proves_the_protocol_saves_a_query() -> None:
    server = Server()
    server.described = replace(DESCRIBED, evidence="the metadata says so")
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) >= 3)

    assert set(server.questions[3:]) == {"model"}
    assert results.all[-1].spoken.evidence == "the metadata says so"


async def test_a_settling_model_is_detected_as_ready_soon() -> None:
    server = Server(NO)
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.SETTLING, 1000)
        await results.until(lambda: results.all)
        server.answer = YES
        began = asyncio.get_running_loop().time()
        await results.until(lambda: results.all[-1].model_ready == YES)

    assert asyncio.get_running_loop().time() - began < 1
    assert results.all[0].live == YES


async def test_ask_now_does_not_wait_for_the_interval() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 1000)
        await results.until(lambda: results.all)
        server.answer = NO

        poller.ask_now("pod")
        poller.ask_now("unknown")
        await results.until(lambda: results.all[-1].model_ready == NO)


async def test_polls_that_are_not_urgent_are_aligned() -> None:
    now = [1000.01]
    async with polling(Server(), clock=lambda: now[0]) as (poller, results):

        async def ask(uid: str, at: float) -> None:
            now[0], known = at, len(results.polled)
            poller.ask_now(uid)
            await results.until(lambda: len(results.polled) > known)

        calm = [target(pod_uid=uid) for uid in ("one", "other", "waker")]
        poller.watch(KEY, calm, PollPace.STABLE, 10)
        await results.until(lambda: len(results.polled) == 3)
        await ask("other", 1000.13)
        await ask("waker", 1010.2)
        assert len(results.polled) == 5

        await ask("waker", 1010.25)
        await results.until(lambda: len(results.polled) == 8)


async def test_changes_of_the_pace_do_not_postpone_the_poll_of_a_ready_model() -> None:
    now = [1000.01]
    async with polling(Server(), clock=lambda: now[0]) as (poller, results):
        both = [target(pod_uid=uid) for uid in ("one", "waker")]
        poller.watch(KEY, both, PollPace.STABLE, 10)
        await results.until(lambda: len(results.polled) == 2)
        for now[0], pace in ((1005.0, PollPace.SETTLING), (1008.0, PollPace.STABLE)):
            poller.watch(KEY, both, pace, 10)

        now[0] = 1010.25
        poller.ask_now("waker")
        await results.until(lambda: len(results.polled) == 4)


async def test_ask_now_during_a_poll_triggers_another_poll() -> None:
    server = Server()
    server.gate.clear()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        poller.ask_now("pod")
        poller.ask_now("pod")
        server.gate.set()
        await results.until(lambda: len(results.polled) == 2)

    assert server.polls == 2


async def test_the_answer_of_a_replaced_container_is_ignored() -> None:
    server = Server()
    server.gate.clear()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.SETTLING, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        poller.watch(KEY, [target(container_id="containerd://2")], PollPace.SETTLING, 1000)
        server.gate.set()
        await results.until(lambda: results.all)

    assert {result.container_id for result in results.all} == {"containerd://2"}


async def test_a_forgotten_model_is_not_polled_again() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) >= 2)
        poller.forget(KEY)
        assert poller.targets == 0
        assert results.forgotten == ["pod"]
        polls = server.polls
        poller.watch(KEY, [target(pod_uid="other")], PollPace.STABLE, 1000)
        await results.until(lambda: results.all[-1].pod_uid == "other")

    assert server.polls <= polls + 2


async def test_consecutive_unknown_answers_are_counted() -> None:
    server = Server(REFUSED)
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.SETTLING, 1000)
        await results.until(lambda: len(results.all) >= 3)
        server.answer = YES
        await results.until(lambda: results.all[-1].model_ready == YES)

    counts = [result.consecutive_unknown for result in results.all]
    assert counts[:3] == [1, 2, 3]
    assert counts[-1] == 0
    assert "live" not in server.questions  # a port that refuses refuses everything


async def test_slow_metadata_does_not_delay_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interrogation, "PATIENCE_SECONDS", 0.01)
    server = Server()
    server.metadata_gate.clear()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.SETTLING, 1000)
        await results.until(lambda: results.all)
        assert results.all[0].model_ready == YES
        assert results.all[0].model is None

        server.metadata_gate.set()
        await results.until(lambda: len(results.all) == 2)

    assert results.all[1].model == DESCRIBED.model


@pytest.mark.parametrize(
    "partial", [Described(), Described(model=DESCRIBED.model), Described(server=DESCRIBED.server)]
)
async def test_missing_metadata_is_queried_again_soon_even_with_many_replicas(
    partial: Described,
) -> None:
    now = [1000.0]
    server = Server()
    server.described = partial
    async with polling(server, polls_a_second=0.001, clock=lambda: now[0]) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 10)
        await results.until(lambda: results.polled)
        assert (results.all[-1].server, results.all[-1].model) == (partial.server, partial.model)

        server.described = DESCRIBED
        now[0] += 30
        poller.watch(KEY, [target(), target(pod_uid="waker")], PollPace.STABLE, 10)
        await results.until(lambda: len(results.polled) == 3)

    last = [result for result in results.all if result.pod_uid == "pod"][-1]
    assert (last.server, last.model) == (DESCRIBED.server, DESCRIBED.model)


async def test_a_protocol_without_server_metadata_is_complete_without_it() -> None:
    now = [1000.0]
    server = Server()
    server.described = Described(model=DESCRIBED.model)
    serving = target(protocol="TensorFlowServing")
    waker = target(pod_uid="waker", protocol="TensorFlowServing")
    async with polling(server, polls_a_second=0.001, clock=lambda: now[0]) as (poller, results):
        poller.watch(KEY, [serving], PollPace.STABLE, 10)
        await results.until(lambda: results.polled)
        now[0] += 30
        poller.watch(KEY, [serving, waker], PollPace.STABLE, 10)
        await results.until(lambda: len(results.polled) == 2)

    assert [result.pod_uid for result in results.all] == ["pod", "waker"]
    assert server.polls == 2


async def test_a_server_that_is_no_longer_ready_is_not_queried_for_metadata() -> None:
    now = [1000.0]
    server = Server()
    server.described = Described()
    async with polling(server, clock=lambda: now[0]) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 10)
        await results.until(lambda: results.polled)
        server.answer = NO
        now[0] += 30
        poller.ask_now("pod")
        await results.until(lambda: len(results.polled) == 2)
        for number in range(3):
            poller.watch(KEY, [target(), target(pod_uid=f"waker {number}")], PollPace.STABLE, 10)
            await results.until(lambda number=number: len(results.polled) == 3 + number)

    assert server.polls == 5


async def test_a_failing_metadata_query_is_repeated_with_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    server = Server()
    server.described = Described()

    async def broken(_: ProbeTarget) -> Described:
        raise RuntimeError("a defect")

    async with polling(server, clock=lambda: now[0]) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 1000)
        await results.until(lambda: results.polled)
        monkeypatch.setattr(server, "describe", broken)
        now[0] += 30
        poller.ask_now("pod")
        async with asyncio.timeout(5):
            while server.polls < 2 or poller.in_flight:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0)
        monkeypatch.undo()
        poller.watch(KEY, [target(), target(pod_uid="waker")], PollPace.STABLE, 1000)
        await results.until(lambda: len(results.polled) == 2)

    assert server.polls == 3


async def test_known_metadata_survives_a_failed_query() -> None:
    previous = ProbeResult(
        "pod",
        "c",
        model_ready=YES,
        server=ServerInfo("s"),
        model=ModelInfo("m"),
    )
    server = Server()
    server.described = Described()

    found = [
        each
        async for each in interrogation.interrogate(
            {WAY: server}, target(), previous, describe=True
        )
    ]

    assert found[-1].model == ModelInfo("m")


async def test_polls_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage_operator.probe.schedule.poller.IN_FLIGHT", 9)
    server = Server()
    server.gate.clear()
    async with polling(server) as (poller, results):
        targets = [target(pod_uid=f"pod-{number}") for number in range(10)]
        poller.watch(KEY, targets, PollPace.STABLE, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        for _ in range(20):
            await asyncio.sleep(0)
        assert poller.in_flight == 3
        server.gate.set()
        await results.until(lambda: len({each.pod_uid for each in results.all}) == 10)


async def test_a_poll_that_waits_for_its_answer_allows_others_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moorage_operator.probe.schedule.poller.STARTING", 1)
    server = Server()
    server.gate.clear()
    async with polling(server) as (poller, results):
        targets = [target(pod_uid=str(number)) for number in range(3)]
        poller.watch(KEY, targets, PollPace.STABLE, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        assert poller.in_flight == 1
        await asyncio.sleep(3 * STARTING_SECONDS)
        assert poller.in_flight == 3
        server.gate.set()
        await results.until(lambda: len(results.polled) == 3)


@pytest.mark.parametrize(
    "hung",
    [
        [ObjectKey("theirs", "one")],
        [ObjectKey("theirs", f"model-{number}") for number in range(20)],
        [ObjectKey(f"theirs-{number}", "one") for number in range(20)],
    ],
    ids=["one model", "one namespace", "many namespaces"],
)
async def test_servers_that_hang_leave_slots_to_others(
    monkeypatch: pytest.MonkeyPatch, hung: list[ObjectKey]
) -> None:
    monkeypatch.setattr("moorage_operator.probe.schedule.poller.IN_FLIGHT", 64)
    monkeypatch.setattr("moorage_operator.probe.schedule.poller.STARTING", 64)
    server, good = Server(), Server()
    server.gate.clear()
    async with polling(server, others={("GRPS", "HTTP"): good}) as (poller, results):
        for number in range(200):
            key = hung[number % len(hung)]
            uids = [f"{key}-{each}" for each in range(200 // len(hung))]
            poller.watch(key, [target(pod_uid=uid) for uid in uids], PollPace.STABLE, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        for _ in range(20):
            await asyncio.sleep(0)
        held = poller.in_flight
        poller.watch(KEY, [target(protocol="GRPS")], PollPace.STABLE, 1000)
        await results.until(lambda: results.all)

        assert held < 64
        assert results.all[0].model_ready == YES
        server.gate.set()


async def test_a_model_with_expensive_answers_is_polled_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    server = Server(NO)
    model_ready = server.model_ready

    async def costly(of: ProbeTarget) -> Answer:
        cost.spending(burn)
        return await model_ready(of)

    def burn() -> None:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass

    monkeypatch.setattr(server, "model_ready", costly)
    async with polling(server, clock=lambda: now[0]) as (poller, results):
        poller.watch(KEY, [target(), target(pod_uid="mate")], PollPace.SETTLING, 1000)
        await results.until(lambda: len(results.polled) == 2)

        # 20 ms of two replicas at 1 % of a core, and not the tenth of a second of settling.
        assert all(poll.due - 1000.0 >= 4.0 for poll in poller._polls.values())
        poller.ask_now("pod")
        assert poller._polls["pod"].due - 1000.0 >= 4.0


async def test_replicas_that_were_ready_before_a_restart_are_polled_one_by_one() -> None:
    async with polling(Server(), polls_a_second=0.001) as (poller, results):
        targets = [target(vouched=True), target(pod_uid="other")]
        poller.watch(KEY, targets, PollPace.STABLE, 1000)
        await results.until(lambda: results.all)
        assert [each.pod_uid for each in results.all] == ["other"]

        poller.ask_now("pod")  # something happened to it
        await results.until(lambda: len(results.all) == 2)


async def test_replicas_beyond_the_budget_are_polled_less_often() -> None:
    async with polling(Server(), polls_a_second=4) as (poller, results):
        targets = [target(pod_uid=str(number)) for number in range(8)]
        poller.watch(KEY, targets, PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) >= 8)
        assert poller.least_interval_seconds == 2.0
        began = asyncio.get_running_loop().time()
        await results.until(lambda: len(results.polled) >= 9)

    assert asyncio.get_running_loop().time() - began > 1.5
    assert results.polled[-1].since_last_seconds is not None
    assert [each.since_last_seconds for each in results.polled[:8]] == [None] * 8


async def test_a_server_that_starts_offline_is_brought_online_once_in_a_containers_life() -> None:
    server = Server(NO)
    result = await asked(server, bring_online=True)
    assert (result.model_ready, result.brought_online) == (YES, True)

    server.answer = NO
    again = await asked(server, result, bring_online=True)

    assert again.model_ready == NO
    assert server.questions.count("online") == 1


@pytest.mark.parametrize(
    ("answer", "may"),
    [(NO, False), (REFUSED, True), (replace(NO, reason=AnswerReason.MODEL_NOT_FOUND), True)],
)
async def test_no_other_server_is_set_online(answer: Answer, may: bool) -> None:
    server = Server(answer)

    result = await asked(server, bring_online=may)

    assert not result.brought_online
    assert "online" not in server.questions


async def test_a_custom_path_proves_no_protocol_until_its_own_query_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()

    async def no_metadata(_: ProbeTarget) -> Answer:
        return Answer(None, AnswerReason.WRONG_PROTOCOL)

    monkeypatch.setattr(server, "speaks", no_metadata)
    unshown = await asked(server, own_path=True)
    assert (unshown.model_ready, unshown.spoken) == (YES, None)

    monkeypatch.undo()
    shown = await asked(server, own_path=True)
    assert shown.spoken is not None
    assert shown.spoken.protocol == "OpenInference"


# ---------------------------------------------------------------------- smoke tests

TASK = SmokeTask("d1", (SmokeTest("one", ()),))
WITH_OUTPUT = SmokeTask("d1", (SmokeTest("one", (), (ExpectedTensor("y", (1,)),)),))


async def test_a_ready_model_is_smoke_tested_once() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=TASK)], PollPace.STABLE, 0.01)
        await results.until(lambda: results.all and results.all[-1].smoke)
        polled = len(results.polled)
        poller.watch(KEY, [target(smoke=replace(TASK, done=True))], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) > polled + 2)

    assert server.questions.count("infer within 30") == 1
    assert results.all[-1].smoke is not None
    assert (results.all[-1].smoke.digest, results.all[-1].smoke.verdict) == ("d1", "Passed")
    ((verdict, seconds),) = results.smoked
    assert verdict == "Passed"
    assert seconds >= 0


async def test_tests_that_passed_according_to_the_status_are_not_run() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=replace(TASK, done=True))], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) > 2)

    assert not any("infer" in question for question in server.questions)


async def test_a_model_that_is_not_ready_is_not_smoke_tested() -> None:
    server = Server(NO)
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=TASK)], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) > 2)

    assert not any("infer" in question for question in server.questions)


async def test_edited_tests_are_run_at_once_and_the_metadata_is_kept() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=TASK)], PollPace.STABLE, 1000)
        await results.until(lambda: results.all and results.all[-1].smoke)
        poller.watch(KEY, [target(smoke=replace(TASK, digest="d2"))], PollPace.STABLE, 1000)
        await results.until(lambda: results.all[-1].smoke.digest == "d2")

    assert server.questions.count("metadata") == 1
    assert results.all[-1].model == DESCRIBED.model


async def test_a_new_container_is_smoke_tested_again() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=TASK)], PollPace.STABLE, 1000)
        await results.until(lambda: results.all and results.all[-1].smoke)
        poller.watch(
            KEY, [target(smoke=TASK, container_id="containerd://2")], PollPace.STABLE, 1000
        )
        await results.until(
            lambda: results.all[-1].container_id == "containerd://2" and results.all[-1].smoke
        )

    assert server.questions.count("infer within 30") == 2


async def test_smoke_tests_that_hang_leave_slots_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(smoke_runner, "IN_FLIGHT", 8)
    server, good = Server(), Server()
    server.infer_gate.clear()
    async with polling(server, others={("GRPS", "HTTP"): good}) as (poller, results):
        key = ObjectKey("theirs", "one")
        targets = [target(smoke=TASK, pod_uid=f"pod-{number}") for number in range(50)]
        poller.watch(key, targets, PollPace.STABLE, 1000)
        await results.until(lambda: len(results.polled) == 50)
        poller.watch(KEY, [target(smoke=TASK, protocol="GRPS")], PollPace.STABLE, 1000)
        await results.until(lambda: results.all and results.all[-1].smoke)

        assert results.all[-1].smoke.verdict == "Passed"
        server.infer_gate.set()


async def test_a_slow_smoke_test_delays_no_poll() -> None:
    server = Server()
    server.infer_gate.clear()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=TASK)], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) > 4)
        server.answer = NO
        await results.until(lambda: results.all[-1].model_ready == NO)
        poller.forget(KEY)

    assert server.questions.count("infer within 30") == 1
    assert all(result.smoke is None for result in results.all)


async def test_failed_tests_are_run_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke_runner, "AGAIN_FIRST_SECONDS", 0.02)
    server = Server()
    server.outputs = Answer(None, AnswerReason.REFUSED, "cannot connect")
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=TASK)], PollPace.STABLE, 1000)
        await results.until(lambda: results.all and results.all[-1].smoke)
        assert results.all[-1].smoke.verdict == SmokeVerdict.REQUEST_REJECTED
        server.outputs = {"y": (1,)}
        await results.until(lambda: results.all[-1].smoke.verdict == SmokeVerdict.PASSED)


async def test_an_unexpected_error_of_a_driver_only_ends_its_tests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    server.outputs = None  # type: ignore[assignment]
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=WITH_OUTPUT)], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) > 4)

    assert server.questions.count("infer within 30") == 1
    assert "smoke tests failed with an unexpected error" in caplog.text
