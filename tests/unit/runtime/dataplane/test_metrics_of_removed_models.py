"""The series of models and versions that come and go."""

import pytest
from prometheus_client import CollectorRegistry

from moorage_runtime.dataplane.metrics import InferenceMetrics


class Server:
    """Metrics of a server with these versions."""

    def __init__(self, *versions):
        self.versions = list(versions)
        self.registry = CollectorRegistry()
        self.metrics = InferenceMetrics(self.registry)
        self.metrics.watch(lambda: [(*each, True, 0) for each in self.versions])

    def use(self, model, version):
        self.metrics.loaded(model, version, "ModelFailed", 0.0)
        self.metrics.loaded(model, version, "ok", 0.5)
        self.metrics.ran(model, version, 2, [0.1, 0.2])
        self.metrics.record(model, version, "ok", 0.1)
        self.metrics.record(model, version, "Cancelled", 0.1)

    def series(self):
        """Name, model and version of each."""
        return {
            (sample.name, sample.labels["model"], sample.labels["version"])
            for metric in self.registry.collect()
            for sample in metric.samples
        }


@pytest.mark.parametrize("left", [[], [("m", "1")], [("m", "1"), ("other", "2")]])
def test_a_removed_version_leaves_no_series(left):
    server = Server(("m", "1"), ("m", "2"), ("other", "2"))
    for version in server.versions:
        server.use(*version)
    assert {each[1:] for each in server.series()} == set(server.versions)

    server.versions = left

    assert {each[1:] for each in server.series()} == set(left)


def test_the_other_series_stay():
    server = Server(("m", "1"), ("m", "2"))
    server.use("m", "1")
    before = server.series()
    server.use("m", "2")
    server.series()

    server.versions = [("m", "1")]

    assert server.series() == before - {
        (name, "m", "2") for name in ("moorage_model_ready", "moorage_inferences_in_flight")
    }


def test_a_request_that_ends_after_the_removal_is_dropped_as_well():
    server = Server()
    server.series()

    server.use("m", "1")

    assert server.series() == set()


def test_a_model_that_returns_counts_from_0():
    server = Server(("m", "1"))
    server.use("m", "1")
    server.versions = []
    server.series()

    server.versions = [("m", "1")]
    server.use("m", "1")

    labels = {"model": "m", "version": "1"}
    get = server.registry.get_sample_value
    assert get("moorage_inferences_total", {**labels, "outcome": "ok"}) == 1
    assert get("moorage_model_load_seconds_count", labels) == 1
    assert get("moorage_batch_requests_count", labels) == 1


def test_requests_without_a_version_and_of_unknown_models_stay():
    server = Server(("m", "1"))
    server.metrics.record("m", "", "ModelNotReady", 0.1)
    server.metrics.record("gone", "", "ModelNotReady", 0.1)
    server.metrics.record("unknown", "", "ModelNotFound", 0.1)

    found = {each[1:] for each in server.series() if each[0] == "moorage_inferences_total"}

    assert found == {("m", ""), ("", "")}
