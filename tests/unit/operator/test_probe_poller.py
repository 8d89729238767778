import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from moorage_operator.answers import (
    Answer,
    AnswerReason,
    ModelInfo,
    ProbeResult,
    ServerInfo,
)
from moorage_operator.api.smoke_tests import ExpectedTensor, InputTensor, SmokeTest
from moorage_operator.planned import PollPace, ProbeTarget
from moorage_operator.probe import interrogation, smoke_runner
from moorage_operator.probe.driver import Described
from moorage_operator.probe.poller import STARTING_SECONDS, Edges, Polled, Poller
from moorage_operator.smoke import Outputs, SmokeTask, SmokeVerdict
from moorage_operator.state import ObjectKey
from support.probe_targets import target

WAY = ("OpenInference", "HTTP")
KEY = ObjectKey("ns", "iris")
YES = Answer(verdict=True, reason=AnswerReason.READY)
NO = Answer(verdict=False, reason=AnswerReason.NOT_READY)
REFUSED = Answer(verdict=None, reason=AnswerReason.REFUSED)
DESCRIBED = Described(ServerInfo("s"), ModelInfo("iris"))


class Server:
    """A driver whose answers a test sets; counts the questions."""

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
        self.heard: Callable[[], object] = lambda: None
        self._changed = asyncio.Event()

    def take(self, key: ObjectKey, result: ProbeResult) -> None:
        assert key == KEY
        self.all.append(result)
        self.heard()
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
            now=lambda: datetime.now(UTC),
        )
    ]
    return results[-1]


@asynccontextmanager
async def polling(
    server: Server, polls_a_second: float = 1000.0, clock: Callable[[], float] | None = None
) -> AsyncIterator[tuple[Poller, Results]]:
    results = Results()
    edges = Edges(
        clock=clock or asyncio.get_running_loop().time,
        now=lambda: datetime.now(UTC),
        jitter=lambda: 0.5,
        polled=results.count,
        smoked=lambda verdict, seconds: results.smoked.append((str(verdict), seconds)),
    )
    poller = Poller(
        {WAY: server, ("TensorFlowServing", "HTTP"): server},
        results.take,
        edges,
        polls_a_second=polls_a_second,
    )
    task = asyncio.ensure_future(poller.run())
    try:
        yield poller, results
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_new_target_is_asked_at_once_and_carries_metadata() -> None:
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


async def test_a_ready_model_is_asked_one_question_a_poll() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) >= 3)

    assert server.questions[:3] == ["model", "ready", "metadata"]
    assert server.questions[3] == "speaks"
    assert set(server.questions[4:]) == {"model"}


async def test_a_settling_model_is_found_ready_soon() -> None:
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


async def test_calm_polls_are_asked_together_whenever_they_were_asked_before() -> None:
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


async def test_ask_now_during_a_poll_asks_once_more() -> None:
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


async def test_an_answer_is_owed_until_it_is_given() -> None:
    server = Server()
    server.gate.clear()
    owed: list[bool] = []
    async with polling(server) as (poller, results):
        results.heard = lambda: owed.append(poller.owed.is_owed(KEY))
        poller.watch(KEY, [target(), target(pod_uid="other")], PollPace.STABLE, 1000)
        assert poller.owed.is_owed(KEY)
        server.gate.set()
        await results.until(lambda: len(results.polled) == 2)
        assert owed == [True, False]

        poller.ask_now("pod")
        assert poller.owed.is_owed(KEY)
        await results.until(lambda: len(results.polled) == 3)
        assert not poller.owed.is_owed(KEY)


async def test_an_answer_to_an_earlier_question_is_not_the_one_that_is_owed() -> None:
    server = Server()
    server.gate.clear()
    owed: list[bool] = []
    async with polling(server) as (poller, results):
        results.heard = lambda: owed.append(poller.owed.is_owed(KEY))
        poller.watch(KEY, [target()], PollPace.STABLE, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        poller.ask_now("pod")
        server.gate.set()
        await results.until(lambda: results.all)
        assert owed == [True]

        await results.until(lambda: len(results.polled) == 2)
        assert not poller.owed.is_owed(KEY)


@pytest.mark.parametrize("until", ["forgotten", "replaced", "broken"])
async def test_what_will_not_be_answered_is_not_owed(until: str) -> None:
    server = Server()
    server.gate.clear()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        if until == "forgotten":
            poller.forget(KEY)
        elif until == "replaced":
            poller.watch(KEY, [target(pod_uid="other")], PollPace.STABLE, 1000)
            server.gate.set()
            await results.until(lambda: results.all)
        else:
            server.broken = True
            server.gate.set()
            await asyncio.wait(poller._tasks, timeout=5)

        assert not poller.owed.is_owed(KEY)


async def test_what_comes_round_by_itself_is_owed_to_nobody() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 0.01)
        await results.until(lambda: results.polled)
        server.gate.clear()
        server.asked.clear()
        await asyncio.wait_for(server.asked.wait(), 5)

        assert not poller.owed.is_owed(KEY)


async def test_the_answer_of_a_container_that_was_replaced_is_void() -> None:
    server = Server()
    server.gate.clear()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.SETTLING, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        poller.watch(KEY, [target(container_id="containerd://2")], PollPace.SETTLING, 1000)
        server.gate.set()
        await results.until(lambda: results.all)

    assert {result.container_id for result in results.all} == {"containerd://2"}


async def test_a_forgotten_model_is_not_asked_again() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) >= 2)
        poller.forget(KEY)
        assert poller.targets == 0
        polls = server.polls
        poller.watch(KEY, [target(pod_uid="other")], PollPace.STABLE, 1000)
        await results.until(lambda: results.all[-1].pod_uid == "other")

    assert server.polls <= polls + 2


async def test_unknown_answers_are_counted_until_somebody_answers() -> None:
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


async def test_slow_metadata_does_not_hold_up_the_verdict(
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
    "told", [Described(), Described(model=DESCRIBED.model), Described(server=DESCRIBED.server)]
)
async def test_metadata_that_was_not_told_is_asked_for_soon_among_many_replicas(
    told: Described,
) -> None:
    now = [1000.0]
    server = Server()
    server.described = told
    async with polling(server, polls_a_second=0.001, clock=lambda: now[0]) as (poller, results):
        poller.watch(KEY, [target()], PollPace.STABLE, 10)
        await results.until(lambda: results.polled)
        assert (results.all[-1].server, results.all[-1].model) == (told.server, told.model)

        server.described = DESCRIBED
        now[0] += 30
        poller.watch(KEY, [target(), target(pod_uid="waker")], PollPace.STABLE, 10)
        await results.until(lambda: len(results.polled) == 3)

    last = [result for result in results.all if result.pod_uid == "pod"][-1]
    assert (last.server, last.model) == (DESCRIBED.server, DESCRIBED.model)


async def test_a_protocol_that_tells_nothing_of_the_server_leaves_nothing_open() -> None:
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


async def test_a_server_that_is_not_ready_any_more_is_not_pressed_for_metadata() -> None:
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


async def test_a_question_for_metadata_that_breaks_is_not_asked_without_a_pause(
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


async def test_metadata_that_fails_once_stays_known() -> None:
    previous = ProbeResult(
        "pod",
        "c",
        datetime.now(UTC),
        model_ready=YES,
        server=ServerInfo("s"),
        model=ModelInfo("m"),
    )
    server = Server()
    server.described = Described()

    found = [
        each
        async for each in interrogation.interrogate(
            {WAY: server}, target(), previous, describe=True, now=lambda: datetime.now(UTC)
        )
    ]

    assert found[-1].model == ModelInfo("m")


async def test_polls_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    server.gate.clear()
    async with polling(server) as (poller, results):
        poller._in_flight = asyncio.Semaphore(3)
        targets = [target(pod_uid=f"pod-{number}") for number in range(10)]
        poller.watch(KEY, targets, PollPace.STABLE, 1000)
        await asyncio.wait_for(server.asked.wait(), 5)
        for _ in range(20):
            await asyncio.sleep(0)
        assert poller.in_flight == 3
        server.gate.set()
        await results.until(lambda: len({each.pod_uid for each in results.all}) == 10)


async def test_a_poll_that_waits_for_its_answer_makes_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moorage_operator.probe.poller.STARTING", 1)
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


async def test_replicas_that_their_statuses_vouch_for_are_asked_one_after_the_other() -> None:
    async with polling(Server(), polls_a_second=0.001) as (poller, results):
        targets = [target(vouched=True), target(pod_uid="other")]
        poller.watch(KEY, targets, PollPace.STABLE, 1000)
        await results.until(lambda: results.all)
        assert [each.pod_uid for each in results.all] == ["other"]

        poller.ask_now("pod")  # something happened to it
        await results.until(lambda: len(results.all) == 2)


async def test_more_replicas_than_the_budget_allows_are_asked_less_often() -> None:
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
async def test_no_other_server_is_told_to_go_online(answer: Answer, may: bool) -> None:
    server = Server(answer)

    result = await asked(server, bring_online=may)

    assert not result.brought_online
    assert "online" not in server.questions


# ---------------------------------------------------------------------- smoke tests

TASK = SmokeTask("d1", (SmokeTest("one", ()),))
WITH_OUTPUT = SmokeTask("d1", (SmokeTest("one", (), (ExpectedTensor("y", (1,)),)),))


async def test_a_ready_model_is_put_to_its_smoke_tests_once() -> None:
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


async def test_tests_that_the_status_knows_as_passed_are_not_run() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=replace(TASK, done=True))], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) > 2)

    assert not any("infer" in question for question in server.questions)


async def test_a_model_that_is_not_ready_is_not_put_to_tests() -> None:
    server = Server(NO)
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=TASK)], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) > 2)

    assert not any("infer" in question for question in server.questions)


async def test_edited_tests_are_run_at_once_and_the_metadata_stays_known() -> None:
    server = Server()
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=TASK)], PollPace.STABLE, 1000)
        await results.until(lambda: results.all and results.all[-1].smoke)
        poller.watch(KEY, [target(smoke=replace(TASK, digest="d2"))], PollPace.STABLE, 1000)
        await results.until(lambda: results.all[-1].smoke.digest == "d2")

    assert server.questions.count("metadata") == 1
    assert results.all[-1].model == DESCRIBED.model


async def test_another_container_is_put_to_the_tests_again() -> None:
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


async def test_a_slow_smoke_test_holds_up_no_poll() -> None:
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


async def test_a_defect_of_a_driver_ends_its_tests_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    server.outputs = None  # type: ignore[assignment]
    async with polling(server) as (poller, results):
        poller.watch(KEY, [target(smoke=WITH_OUTPUT)], PollPace.STABLE, 0.01)
        await results.until(lambda: len(results.polled) > 4)

    assert server.questions.count("infer within 30") == 1
    assert "smoke tests broke" in caplog.text
