from collections.abc import Sequence

import pytest

from moorage_runtime.workers.shared.messages import (
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
from moorage_runtime.workers.shared.server_state import ServerState

STARTING = State()
LISTENING = State(is_listening=True)
READY = State(is_listening=True, is_ready=True, models=(VersionState("m", "1", "READY", ""),))


def requests(count: float) -> tuple[Family, ...]:
    return (Family("requests", "All.", "counter", [("requests_total", {}, count)]),)


def memory(size: float) -> tuple[Family, ...]:
    return (Family("memory", "Now.", "gauge", [("memory", {}, size)]),)


def running(workers: int = 2) -> ServerState:
    """A server whose workers are all ready."""
    server = ServerState(workers, 8000, 8001)
    for worker in range(workers):
        server.started(worker)
        server.heard_state(worker, READY)
    return server


def views(letters: Sequence[tuple[int, ToWorker]]) -> dict[int, tuple[State, ...]]:
    return {worker: message.peers for worker, message in letters if isinstance(message, View)}


def test_a_worker_is_told_the_ports_and_that_the_others_are_not_ready_yet():
    assert ServerState(2, 8000, 8001).started(0) == [
        (0, Begin(8000, 8001, takes_over=False, is_online=None, unloaded=())),
        (0, View((STARTING,))),
    ]


def test_every_state_reaches_the_others():
    server = ServerState(3, 8000, 8001)
    for worker in range(3):
        server.started(worker)

    found = views(server.heard_state(1, LISTENING))

    assert found == {
        0: (LISTENING, STARTING),
        1: (STARTING, STARTING),
        2: (STARTING, LISTENING),
    }


def test_a_worker_that_ends_before_it_has_served_keeps_the_server_from_being_ready():
    server = ServerState(2, 8000, 8001)
    server.started(0)
    server.started(1)
    server.heard_state(0, READY)

    assert views(server.ended(1)) == {0: (STARTING,)}


def test_a_worker_that_ends_after_serving_does_not_affect_readiness():
    server = running()

    assert views(server.ended(1)) == {0: ()}


def test_a_replacement_counts_only_when_it_listens():
    server = running()
    server.ended(1)

    begin = server.started(1)[0][1]

    assert isinstance(begin, Begin)
    assert begin.takes_over
    assert server.heard_state(1, State(models=READY.models)) == []
    assert views(server.heard_state(1, READY)) == {0: (READY,), 1: (READY,)}


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
def test_a_replacement_receives_the_changes_of_clients(asks, expected):
    server = running()
    for act, name in asks:
        server.heard_ask(0, Ask(0, act, name))
    server.ended(1)

    begin = server.started(1)[0][1]

    assert isinstance(begin, Begin)
    assert (begin.is_online, begin.unloaded) == expected


def test_a_question_goes_to_all_workers_and_its_answers_to_the_sender():
    server = running()

    number, letters = server.heard_ask(1, Ask(7, "load", "m"))

    assert letters == [(0, Do(number, "load", "m")), (1, Do(number, "load", "m"))]
    assert server.heard_answer(1, Answer(number)) == []
    failed = Answer(number, "ModelFailed", "no")
    assert server.heard_answer(0, failed) == [(1, Answers(7, (Answer(number), failed)))]


def test_two_questions_at_a_time_are_answered_by_their_numbers():
    server = running()
    first, _ = server.heard_ask(0, Ask(5, "load", "m"))
    second, _ = server.heard_ask(1, Ask(5, "unload", "m"))

    for number in (first, second):
        server.heard_answer(0, Answer(number))

    assert server.heard_answer(1, Answer(second)) == [(1, Answers(5, (Answer(second),) * 2))]
    assert server.heard_answer(1, Answer(first)) == [(0, Answers(5, (Answer(first),) * 2))]


def test_a_second_or_unknown_answer_is_ignored():
    server = running()
    number, _ = server.heard_ask(0, Ask(0, "load", "m"))
    server.heard_answer(0, Answer(number))

    assert server.heard_answer(0, Answer(number)) == []
    assert server.heard_answer(0, Answer(99)) == []
    assert server.expired(99) == []


def test_a_question_does_not_wait_for_an_ended_worker():
    server = running()
    number, _ = server.heard_ask(0, Ask(3, "load", "m"))
    server.heard_answer(0, Answer(number))

    letters = server.ended(1)

    assert letters == [(0, View(())), (0, Answers(3, (Answer(number),)))]


def test_the_question_of_an_ended_worker_is_dropped():
    server = running()
    number, _ = server.heard_ask(1, Ask(3, "load", "m"))
    server.ended(1)

    assert server.heard_answer(0, Answer(number)) == []


def collect(server: ServerState, *families: tuple[Family, ...]) -> dict[str, float]:
    """The result of a scrape when the workers have these metrics."""
    number, letters = server.heard_ask(0, Ask(0, "collect"))
    for (worker, _), found in zip(letters, families, strict=True):
        answered = server.heard_answer(worker, Answer(number, families=found))
    return figures(answered)


def figures(letters: Sequence[tuple[int, ToWorker]]) -> dict[str, float]:
    (_, message) = letters[-1]
    assert isinstance(message, Answers)
    return {
        name: value for family in message.answers[0].families for name, _, value in family.samples
    }


def test_metrics_cover_all_workers():
    found = collect(running(), requests(3) + memory(10), requests(4) + memory(20))

    assert found == {"requests_total": 7, "memory": 30}


def test_metrics_are_one_answer_to_the_question():
    server = running()
    number, _ = server.heard_ask(0, Ask(8, "collect"))
    server.heard_answer(0, Answer(number, families=requests(3)))

    letters = server.heard_answer(1, Answer(number, families=requests(4)))

    assert letters == [(0, Answers(8, (Answer(number, families=requests(7)),)))]


def test_counters_do_not_fall_when_a_worker_is_replaced():
    server = running()
    collect(server, requests(3) + memory(10), requests(4) + memory(20))

    server.ended(1)

    assert collect(server, requests(3) + memory(10)) == {"requests_total": 7, "memory": 10}
    server.started(1)
    assert collect(server, requests(5), requests(1)) == {"requests_total": 10}
    server.ended(1)
    assert collect(server, requests(5)) == {"requests_total": 10}


def test_metrics_of_a_worker_that_does_not_answer_are_the_last_seen():
    server = running()
    collect(server, requests(3), requests(4))
    number, _ = server.heard_ask(0, Ask(0, "collect"))
    server.heard_answer(0, Answer(number, families=requests(5)))

    assert figures(server.expired(number)) == {"requests_total": 9}


def test_a_worker_that_has_never_answered_has_no_metrics():
    server = running(3)
    number, _ = server.heard_ask(0, Ask(0, "collect"))
    server.heard_answer(0, Answer(number, families=requests(5)))

    assert figures(server.expired(number)) == {"requests_total": 5}
