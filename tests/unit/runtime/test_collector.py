"""The garbage collector does not begin while it is held off, and goes on afterwards."""

import gc
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from moorage_runtime.codec import json_text
from moorage_runtime.collector import Pauses

PARTS = 200_000


@pytest.fixture
def begun():
    """A list that grows by a generation whenever the collector begins."""
    generations = []

    def note(phase, info):
        if phase == "start":
            generations.append(info["generation"])

    gc.callbacks.append(note)
    yield generations
    gc.callbacks.remove(note)


def test_nothing_is_collected_within_a_pause(begun):
    with Pauses().pause():
        begun.clear()  # what began before says nothing
        made = [[] for _ in range(PARTS)]
        within = list(begun)

    assert within == []
    assert gc.isenabled()
    assert len([[] for _ in made]) == PARTS
    assert begun


def test_the_collector_goes_on_when_the_last_of_several_pauses_ends():
    pauses, both = Pauses(), Barrier(2, timeout=10)

    def pause(_):
        with pauses.pause():
            both.wait()
            seen = gc.isenabled()
            both.wait()
        return seen

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(pause, range(2))) == [False, False]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with Pauses().pause():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_goes_on_after_an_error():
    with pytest.raises(ValueError, match="as asked"), Pauses().pause():
        raise ValueError("as asked")

    assert gc.isenabled()


def test_a_body_of_many_objects_is_parsed_without_the_collector(begun):
    rows = [{"x": 1}] * PARTS
    body = json.dumps({"instances": rows}).encode()
    begun.clear()

    document = json_text.parse(body)

    assert len(begun) <= 1  # the one that was due when it was let go on
    assert document["instances"] == rows
