"""Edits by hand of the operator's children."""

from typing import Any

from simulation.api_server import Object

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
