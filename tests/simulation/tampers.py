"""Edits by hand of the operator's children."""

import random
from typing import Any

from simulation.pods import key_of
from simulation.servers import SERVING
from simulation.stored import Object
from simulation.world import NAMESPACE, USER, World

HAND_SHARE = 0.06
"""The share of histories in which somebody edits pod templates."""

STEP_SHARE = 0.4
"""The share of steps in them that are followed by this."""

PAUSED_SHARE = 0.7
"""The share of these edits before which the model is paused, so that the edit stays."""

IMAGES = (*SERVING[:2], "example/foreign:1")
SEEN_SECONDS = 2.0
REPLACED_SECONDS = (0.5, 8.0, 30.0)

MANAGED_BY = "app.kubernetes.io/managed-by"


def disown(body: Object) -> None:
    """Remove the owner; without the label too, it would count as a foreign object."""
    if MANAGED_BY in body["metadata"]["labels"]:
        body["metadata"].pop("ownerReferences", None)


def _unlabel(body: Object) -> None:
    # A Deployment without pods is found by its label only; it goes with its model.
    if body["metadata"].get("ownerReferences") and (body.get("status") or {}).get("replicas"):
        body["metadata"]["labels"].pop(MANAGED_BY, None)


def _container(deployment: Object) -> Object:
    return deployment["spec"]["template"]["spec"]["containers"][0]


def _edit_route(body: Object) -> None:
    """Swap the shares of a canary in a GRPCRoute, or remove a rule."""
    rules = body["spec"]["rules"]
    refs = rules[0]["backendRefs"]
    if body["kind"] == "GRPCRoute" and len(refs) > 1:
        refs[0]["weight"], refs[1]["weight"] = refs[1]["weight"], refs[0]["weight"]
    else:
        rules.pop()


TAMPERS: tuple[tuple[str, Any], ...] = (
    ("deployments", lambda body: body["spec"].update(replicas=7)),
    (
        "deployments",
        lambda body: body["metadata"]["annotations"].pop("moorage.dev/applied-hash", 0),
    ),
    ("deployments", disown),
    ("deployments", _unlabel),
    ("deployments", lambda body: _container(body).update(image="example/foreign:1")),
    ("services", lambda body: body["spec"].update(selector={"app": "other"})),
    ("services", lambda body: body["spec"]["ports"][0].update(port=7777)),
    ("services", lambda body: body["metadata"]["labels"].pop("moorage.dev/model", 0)),
    ("httproutes", _edit_route),
)
"""Edits of fields that are the operator's, by kind."""


def carefully(change: Any) -> Any:
    """Return the edit without effect on an object that lacks what it changes."""

    def edit(body: Object) -> None:
        try:
            change(body)
        except (KeyError, IndexError):
            return  # already tampered with

    return edit


class HandEdits:
    """Edits of pod templates in one history, from random numbers of their own.

    The pods keep the label of their revision, but do not serve the spec.
    """

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"hand {seed}")
        self._do_happen = self._chance.random() < HAND_SHARE

    def after_step(self) -> None:
        """Edit the templates, perhaps, mostly of a paused model."""
        world, chance = self._world, self._chance
        if not self._do_happen or chance.random() > STEP_SHARE:
            return
        if chance.random() < PAUSED_SHARE:
            world.note("step: pause before an edit by hand")
            for model in world.api.all("inferencemodels", NAMESPACE):
                pause = lambda body: body["spec"].update(paused=True)  # noqa: E731 -- passed on
                world.api.edit("inferencemodels", key_of(model), pause, USER)
            world.run(SEEN_SECONDS)
        image = chance.choice(IMAGES)
        world.note(f"step: edit by hand: {image}")
        for body in world.api.all("deployments", NAMESPACE):
            edit = lambda body: _container(body).update(image=image)  # noqa: E731 -- passed on
            world.api.edit("deployments", key_of(body), edit, USER)
        world.run(chance.choice(REPLACED_SECONDS))
