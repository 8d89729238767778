from collections.abc import Sequence

import pytest

from moorage_runtime.workers.hub import Hub
from moorage_runtime.workers.messages import (
    Answer,
    Answers,
    Ask,
    Begin,
    Do,
    Family,
    State,
    ToWorker,
    VersionState,
    View,
)

STARTING = State()
LISTENING = State(is_listening=True)
READY = State(is_listening=True, is_ready=True, models=(VersionState("m", "1", "READY", ""),))


def requests(count: float) -> tuple[Family, ...]:
    return (Family("requests", "All.", "counter", [("requests_total", {}, count)]),)


def memory(size: float) -> tuple[Family, ...]:
    return (Family("memory", "Now.", "gauge", [("memory", {}, size)]),)


def running(workers: int = 2) -> Hub:
    """A hub whose workers are all ready."""
    hub = Hub(workers, 8000, 8001)
    for worker in range(workers):
        hub.started(worker)
        hub.heard_state(worker, READY)
    return hub


def views(letters: Sequence[tuple[int, ToWorker]]) -> dict[int, tuple[State, ...]]:
    return {worker: message.peers for worker, message in letters if isinstance(message, View)}


def test_a_worker_is_told_the_ports_and_that_the_others_are_not_ready_yet():
    assert Hub(2, 8000, 8001).started(0) == [
        (0, Begin(8000, 8001, takes_over=False, is_online=None, unloaded=())),
        (0, View((STARTING,))),
    ]


def test_every_state_reaches_the_others():
    hub = Hub(3, 8000, 8001)
    for worker in range(3):
        hub.started(worker)

    found = views(hub.heard_state(1, LISTENING))

    assert found == {
        0: (LISTENING, STARTING),
        1: (STARTING, STARTING),
        2: (STARTING, LISTENING),
    }


def test_a_worker_that_ends_before_it_has_served_keeps_the_server_from_being_ready():
    hub = Hub(2, 8000, 8001)
    hub.started(0)
    hub.started(1)
    hub.heard_state(0, READY)

    assert views(hub.ended(1)) == {0: (STARTING,)}


def test_one_that_ends_after_it_has_served_is_not_waited_for():
    hub = running()

    assert views(hub.ended(1)) == {0: ()}


def test_its_replacement_counts_when_it_listens_and_not_before():
    hub = running()
    hub.ended(1)

    begin = hub.started(1)[0][1]

    assert isinstance(begin, Begin)
    assert begin.takes_over
    assert hub.heard_state(1, State(models=READY.models)) == []
    assert views(hub.heard_state(1, READY)) == {0: (READY,), 1: (READY,)}


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        ([], (None, ())),
        ([("offline", "")], (False, ())),
        ([("offline", ""), ("online", "")], (True, ())),
        ([("unload", "b"), ("unload", "a")], (None, ("a", "b"))),
        ([("unload", "a"), ("load", "a")], (None, ())),
        ([("collect", "")], (None, ())),
    ],
)
def test_a_replacement_is_told_what_clients_have_changed(asks, expected):
    hub = running()
    for act, name in asks:
        hub.heard_ask(0, Ask(0, act, name))
    hub.ended(1)

    begin = hub.started(1)[0][1]

    assert isinstance(begin, Begin)
    assert (begin.is_online, begin.unloaded) == expected


def test_a_question_goes_to_all_and_its_answers_to_the_asker():
    hub = running()

    number, letters = hub.heard_ask(1, Ask(7, "load", "m"))

    assert letters == [(0, Do(number, "load", "m")), (1, Do(number, "load", "m"))]
    assert hub.heard_answer(1, Answer(number)) == []
    failed = Answer(number, "ModelFailed", "no")
    assert hub.heard_answer(0, failed) == [(1, Answers(7, (Answer(number), failed)))]


def test_a_second_or_unknown_answer_is_nothing():
    hub = running()
    number, _ = hub.heard_ask(0, Ask(0, "load", "m"))
    hub.heard_answer(0, Answer(number))

    assert hub.heard_answer(0, Answer(number)) == []
    assert hub.heard_answer(0, Answer(99)) == []
    assert hub.expired(99) == []


def test_a_worker_that_ends_is_not_waited_for_by_questions():
    hub = running()
    number, _ = hub.heard_ask(0, Ask(3, "load", "m"))
    hub.heard_answer(0, Answer(number))

    letters = hub.ended(1)

    assert (0, Answers(3, (Answer(number),))) in letters


def test_the_question_of_a_worker_that_ends_is_forgotten():
    hub = running()
    number, _ = hub.heard_ask(1, Ask(3, "load", "m"))
    hub.ended(1)

    assert hub.heard_answer(0, Answer(number)) == []


def collect(hub: Hub, *families: tuple[Family, ...]) -> dict[str, float]:
    """What a scrape sees when the workers have these metrics."""
    number, letters = hub.heard_ask(0, Ask(0, "collect"))
    for (worker, _), found in zip(letters, families, strict=True):
        answered = hub.heard_answer(worker, Answer(number, families=found))
    return figures(answered)


def figures(letters: Sequence[tuple[int, ToWorker]]) -> dict[str, float]:
    (_, message) = letters[-1]
    assert isinstance(message, Answers)
    return {
        name: value for family in message.answers[0].families for name, _, value in family.samples
    }


def test_metrics_are_those_of_all():
    found = collect(running(), requests(3) + memory(10), requests(4) + memory(20))

    assert found == {"requests_total": 7, "memory": 30}


def test_counters_do_not_fall_when_a_worker_is_replaced():
    hub = running()
    collect(hub, requests(3) + memory(10), requests(4) + memory(20))

    hub.ended(1)

    assert collect(hub, requests(3) + memory(10)) == {"requests_total": 7, "memory": 10}
    hub.started(1)
    assert collect(hub, requests(5), requests(1)) == {"requests_total": 10}
    hub.ended(1)
    assert collect(hub, requests(5)) == {"requests_total": 10}


def test_metrics_of_a_worker_that_does_not_answer_are_the_last_seen():
    hub = running()
    collect(hub, requests(3), requests(4))
    number, _ = hub.heard_ask(0, Ask(0, "collect"))
    hub.heard_answer(0, Answer(number, families=requests(5)))

    assert figures(hub.expired(number)) == {"requests_total": 9}
