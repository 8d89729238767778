"""The inference metrics equal those of the Prometheus library's own classes."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram

from moorage_runtime.dataplane.tally import OK, Recording, Tally
from moorage_runtime.values.errors import ModelFailed

BOUNDS = (0.001, 0.01, 0.1)
VERSION = ("model", "version")

inferences = st.tuples(
    st.sampled_from(("a", "b")),
    st.sampled_from(("1", "2")),
    st.sampled_from((OK, "Cancelled", "ModelFailed")),
    st.one_of(st.sampled_from(BOUNDS), st.floats(0, 1)),
)


def samples(registry):
    """Samples by name and labels, without creation times."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


@given(st.lists(inferences, max_size=40))
def test_the_samples_equal_those_of_the_library(given_inferences):
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = Tally(BOUNDS)
    ours.register(tally)
    count = Counter("moorage_inferences", "-", (*VERSION, "outcome"), registry=theirs)
    times = Histogram("moorage_inference_seconds", "-", VERSION, buckets=BOUNDS, registry=theirs)

    for model, version, outcome, seconds in given_inferences:
        tally.record(model, version, outcome, seconds)
        count.labels(model, version, outcome).inc()
        if outcome == OK:
            times.labels(model, version).observe(seconds)

    assert samples(ours) == samples(theirs)


def test_unknown_names_of_clients_never_become_labels():
    registry, tally = CollectorRegistry(), Tally(BOUNDS)
    registry.register(tally)

    tally.record("made up", "7", "ModelNotFound", 0.1)
    tally.record("a", "made up", "VersionNotFound", 0.1)

    found = {frozenset(labels) for _, labels in samples(registry)}
    assert found == {
        frozenset({("model", ""), ("version", ""), ("outcome", outcome)})
        for outcome in ("ModelNotFound", "VersionNotFound")
    }


def record_into(outcomes):
    return Recording(lambda *given: outcomes.append(given[:3]), "m", "")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (ModelFailed("as asked"), "ModelFailed"),
        (ZeroDivisionError(), "Internal"),
        (asyncio.CancelledError(), "Cancelled"),
        (GeneratorExit(), "Cancelled"),
    ],
)
def test_the_outcome_of_an_inference_is_that_of_its_block(error, outcome):
    outcomes = []

    with contextlib.suppress(BaseException), record_into(outcomes) as recording:
        recording.version = "2"
        if error is not None:
            raise error

    assert outcomes == [("m", "2", outcome)]


def test_a_suspended_inference_is_recorded_once_by_the_next_block():
    outcomes = []
    with record_into(outcomes) as recording:
        later = recording.suspended()
    assert outcomes == []

    with later:
        pass

    assert outcomes == [("m", "", "ok")]
