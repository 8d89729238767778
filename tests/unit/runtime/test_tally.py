"""The inference figures are those that the Prometheus library's own metrics would show."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram

from moorage_runtime.tally import OK, Tally

BOUNDS = (0.001, 0.01, 0.1)
VERSION = ("model", "version")

inferences = st.tuples(
    st.sampled_from(("a", "b")),
    st.sampled_from(("1", "2")),
    st.sampled_from((OK, "Cancelled", "ModelFailed")),
    st.one_of(st.sampled_from(BOUNDS), st.floats(0, 1)),
)


def samples(registry):
    """By name and labels, without the times at which series began."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


@given(st.lists(inferences, max_size=40))
def test_the_samples_are_those_of_the_librarys_metrics(given_inferences):
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


def test_names_that_a_client_made_up_become_no_labels():
    registry, tally = CollectorRegistry(), Tally(BOUNDS)
    registry.register(tally)

    tally.record("made up", "7", "ModelNotFound", 0.1)
    tally.record("a", "made up", "VersionNotFound", 0.1)

    found = {frozenset(labels) for _, labels in samples(registry)}
    assert found == {
        frozenset({("model", ""), ("version", ""), ("outcome", outcome)})
        for outcome in ("ModelNotFound", "VersionNotFound")
    }
