"""The events of routes, runtimes and pauses: each is posted once, when something changes."""

from dataclasses import replace
from typing import Any

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.values.plan import Plan
from moorage_operator.values.runtimes import RuntimeState, RuntimeUse
from support.operator_values import model, planned, serving, with_service

TOLD = {
    *("RuntimeChanged", "RuntimeNotFound", "RuntimeFollowed", "Paused", "Resumed"),
    *("GatewayAccepted", "GatewayAPIMissing", "AwaitingGateway"),
}
USE = RuntimeUse("triton", 1, "mark", "{}")
NEWER = replace(USE, generation=2, content='{"runtime":{"image":"a"}}')
CHANGED = Finding(Reason.RUNTIME_CHANGED, "the InferenceRuntime 'triton' was edited")
GONE = Finding(Reason.RUNTIME_NOT_FOUND, "the InferenceRuntime 'triton' does not exist")


def told(plan: Plan) -> list[tuple[str, str]]:
    """Types and reasons of the events that these tests are about."""
    return [(each.type, each.reason) for each in plan.events if each.reason in TOLD]


class History:
    """Reconciles of a model that serves, each with the status of the one before."""

    def __init__(self, of: InferenceModel | None = None) -> None:
        self.of = of or model()
        self.plan = planned(self.of, serving(self.of))

    def then(self, of: InferenceModel | None = None, **facts: Any) -> list[tuple[str, str]]:
        """The events of the next reconcile."""
        self.of = of or self.of
        seen = with_service(serving(self.of, status=self.plan.status, **facts))
        self.plan = planned(self.of, seen)
        return told(self.plan)


def test_an_edited_runtime_is_reported_once_and_again_when_the_model_follows() -> None:
    history = History()
    assert history.then(runtime=RuntimeState(USE)) == []
    waits = RuntimeState(USE, CHANGED)

    assert history.then(runtime=waits) == [("Normal", "RuntimeChanged")]
    assert history.then(runtime=waits) == []
    assert history.then(runtime=RuntimeState(NEWER)) == [("Normal", "RuntimeFollowed")]
    assert history.then(runtime=RuntimeState(NEWER)) == []


def test_another_runtime_is_named_with_the_former_one() -> None:
    history = History()
    history.then(runtime=RuntimeState(USE))

    history.then(runtime=RuntimeState(replace(USE, name="mlserver")))

    (message,) = (e.message for e in history.plan.events if e.reason == "RuntimeFollowed")
    assert message == "generation 1 of InferenceRuntime 'mlserver' is used instead of 'triton'"


def test_a_deleted_runtime_is_a_warning() -> None:
    history = History()
    history.then(runtime=RuntimeState(USE))

    assert history.then(runtime=RuntimeState(USE, GONE)) == [("Warning", "RuntimeNotFound")]


def test_a_pause_and_its_end_are_reported_once() -> None:
    history = History()
    paused = model(generation=2, paused=True)

    assert history.then(paused) == [("Normal", "Paused")]
    assert history.then(paused) == []
    assert history.then(model(generation=3)) == [("Normal", "Resumed")]
    assert history.then() == []


def test_a_route_that_the_cluster_cannot_have_is_a_warning() -> None:
    routed = model(generation=2, route={"parentRefs": [{"name": "web"}]})
    history = History()

    assert history.then(routed) == [("Warning", "GatewayAPIMissing")]
    assert history.then(routed) == []
    # unknown until the Gateway answers, as after every change of the route
    assert history.then(routed, available_kinds=frozenset({"HTTPRoute"})) == []
