"""The smoke tests of one container."""

from collections.abc import Sequence

import pytest

from moorage_operator.api.smoke_tests import ExpectedTensor, InputTensor, SmokeTest
from moorage_operator.probe.schedule.smoke_runner import pause_seconds, run_tests
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs, SmokeOutcome, SmokeTask
from support.probe_targets import target

Y = (ExpectedTensor("y", (1,)),)
RIGHT: Outputs = {"y": (1,)}


class Model:
    """Answers after given numbers of milliseconds of its own clock."""

    def __init__(self, *takes: float, answer: Outputs | Answer = RIGHT) -> None:
        self.takes = list(takes)
        self.answer = answer
        self.seconds = 0.0
        self.deadlines: list[float] = []

    async def infer(self, of: ProbeTarget, _: Sequence[InputTensor]) -> Outputs | Answer:
        self.deadlines.append(of.timeout_seconds)
        self.seconds += self.takes.pop(0) / 1000
        return self.answer


async def outcome(model: Model, *tests: SmokeTest) -> SmokeOutcome:
    return await run_tests(
        model,  # type: ignore[arg-type]
        target(),
        SmokeTask("d", tests),
        lambda: model.seconds,
    )


@pytest.mark.parametrize(
    ("takes", "bound", "verdict"),
    [
        ([900], None, "Passed"),
        ([100], 100, "Passed"),
        ([900, 50], 100, "Passed"),
        ([900, 900, 50], 100, "Passed"),
        ([900, 900, 101], 100, "LatencyExceeded"),
    ],
)
async def test_the_fastest_of_three_answers_counts(takes, bound, verdict):
    model = Model(*takes)

    found = await outcome(model, SmokeTest("one", (), Y, bound))

    assert found.verdict == verdict
    assert model.takes == []


async def test_a_slow_answer_is_reported_with_time_and_limit():
    found = await outcome(Model(900, 812, 950), SmokeTest("one", (), (), 500))

    assert found.message.startswith("smoke test one: ")
    assert "812 ms" in found.message
    assert "500 ms" in found.message


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"y": (2,)}, "OutputMismatch"),
        (
            Answer(verdict=False, reason=AnswerReason.NOT_READY, message="HTTP 400"),
            "RequestRejected",
        ),
        (Answer(None, AnswerReason.REFUSED, "cannot connect"), "RequestRejected"),
        (Answer(None, AnswerReason.MALFORMED, "no outputs"), "RequestRejected"),
        (Answer(None, AnswerReason.TIMED_OUT, "no answer"), "LatencyExceeded"),
    ],
)
async def test_the_first_failure_ends_the_tests(answer, verdict):
    model = Model(1, 1, 1, answer=answer)

    found = await outcome(model, SmokeTest("one", (), Y, 100), SmokeTest("two", ()))

    assert found.verdict == verdict
    assert found.message.startswith("smoke test one: ")
    assert len(model.deadlines) == 1


async def test_every_test_is_run():
    model = Model(1, 1)

    found = await outcome(model, SmokeTest("one", ()), SmokeTest("two", (), Y, 60_000))

    assert (found.verdict, found.message) == ("Passed", "")
    assert model.deadlines == [30, 60]


def test_pauses_grow_to_ten_minutes():
    assert [pause_seconds(n) for n in (1, 2, 3, 7, 8, 99)] == [10, 20, 40, 600, 600, 600]
