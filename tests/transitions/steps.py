"""Sequences of steps: what users do to a model and its children, as data.

A step is a small dictionary, so that a failing sequence can be printed and repeated.
"""

import copy
import random
from collections.abc import Sequence
from typing import Any

from .values import (
    FIXED,
    HARMFUL,
    Path_,
    bad_value,
    harmless,
    properties,
    spec_schema,
    value,
)

Step = dict[str, Any]
Spec = dict[str, Any]

IMAGES = {
    "good": ("example/good:1", "good"),
    "latest": ("example/good:latest", "good"),
    "other": ("example/good:2", "other"),
    "broken": ("example/bad:1", "broken"),
    "wrong": ("example/wrong:1", "wrong"),
    "missing": ("example/missing:1", "good"),
    "nobody": ("example/good:3", ""),
}
"""Image and server by name. `missing` cannot be pulled; a pod of `nobody` does not listen."""

SERVING = ("good", "latest", "other")

TAMPERS: dict[str, list[Any]] = {
    "Deployment": [
        {"spec": {"replicas": 7}},
        {"spec": {"template": {"spec": {"$image": "example/foreign:1"}}}},
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}},
        {"metadata": {"labels": {"moorage.dev/model": None}}},
        {"metadata": {"annotations": {"moorage.dev/applied-hash": None}}},
        {"metadata": {"ownerReferences": None}},
    ],
    "Service": [
        {"spec": {"selector": {"app.kubernetes.io/managed-by": "somebody"}}},
        {"spec": {"$port": 7777}},
        {"metadata": {"labels": {"moorage.dev/model": None}}},
    ],
    "PodDisruptionBudget": [{"spec": {"maxUnavailable": 2}}],
    "NetworkPolicy": [{"spec": {"ingress": []}}],
    "Ingress": [{"spec": {"ingressClassName": "other"}}],
    "HorizontalPodAutoscaler": [{"spec": {"maxReplicas": 9}}],
}
"""Merge patches of fields that are the operator's; `$image` and `$port` change one list item."""

RUNTIMES: dict[str, Spec] = {
    "shared": {
        "command": ["serve"],
        "args": ["--shared"],
        "resources": {"requests": {"cpu": "100m"}},
        "ports": {"grpc": 9001},
        "protocol": "OpenInference",
        "transport": "HTTP",
        "paths": {"live": "/v2/health/live"},
        "health": {"startupTimeoutSeconds": 300},
        "allowedNamespaces": {"selector": {}},
        "env": [{"name": "SHARED", "value": "1"}],
        "formats": [{"name": "listed"}],
        "podTemplate": {"metadata": {"labels": {"shared": "yes"}}},
    },
    "moving": {"updatePolicy": "Automatic", "maxConcurrentRollouts": 1000},
}
"""The InferenceRuntimes that exist.

They have no image, because a model's port selects its server, and none is the default, which would
be that of the whole cluster. A step edits `moving` for the models of all sequences, which follow
by themselves, so it is never part of a sequence's last spec.
"""

TOKENS: list[dict[str, str] | None] = [
    {"client": "one"},
    {"client": "two\nthree", "other": "four"},
    {"client": "no token \u202e"},
    {"client": ""},
    {},
    None,
]
"""Contents of the Secret that `access` may name; None deletes it."""

BASE: Spec = {
    # A server of the testbed answers at once or not at all, so patience costs no time.
    "health": {
        "periodSeconds": 1,
        "timeoutSeconds": 10,
        "failureThreshold": 1,
        "pollIntervalSeconds": 1,
    },
    "$image": "good",
}
"""The first and last spec of every sequence; `$image` refers to a server of `IMAGES`."""


SHARES = {
    "set": 22,
    "edit runtime": 3,
    "renew tokens": 4,
    "set wrong": 15,
    "remove": 12,
    "image": 15,
    "tamper": 12,
    "delete child": 5,
    "re-create": 2,
    "hold": 3,
    "settle": 7,
}
"""The frequency of each kind of step, in percent."""


class Generator:
    """Sequences of one seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._properties = [
            (path, schema) for path, schema in properties(spec_schema()) if path not in FIXED
        ]

    def sequence(self, length: int) -> list[Step]:
        """Steps; what follows them is the suite's: a last spec that serves, and the way back."""
        return [self._step() for _ in range(length)]

    def last_spec(self) -> Spec:
        """A spec that serves, with some properties that no step need have written."""
        spec = copy.deepcopy(BASE)
        spec["$image"] = self._random.choice(SERVING)
        chosen = [each for each in self._properties if harmless(each[0])]
        for path, schema in self._random.sample(chosen, self._random.randrange(0, 6)):
            if not _clashes(spec, path):
                put(spec, path, value(self._random, path, schema))
        if spec.get("rollout", {}).get("strategy") == "BlueGreen":
            # It names Deployments after revisions, so an edited model differs from a fresh one.
            spec["rollout"]["strategy"] = "RollingUpdate"
        return spec

    def _step(self) -> Step:
        (do,) = self._random.choices(list(SHARES), list(SHARES.values()))
        if do == "image":
            return {"do": do, "value": self._random.choice(list(IMAGES))}
        if do in {"tamper", "delete child"}:
            kind = self._random.choice(list(TAMPERS))
            patch = {"patch": self._random.choice(TAMPERS[kind])} if do == "tamper" else {}
            return {"do": do, "kind": kind, **patch}
        if do == "renew tokens":
            return {"do": do, "content": self._random.choice(TOKENS)}
        if do in {"re-create", "hold", "settle", "edit runtime"}:
            return {"do": do}
        path, schema = self._random.choice(self._properties)
        if do == "remove":
            return {"do": do, "path": list(path)}
        make = bad_value if do == "set wrong" or self._is_harmful(path) else value
        return {"do": "set", "path": list(path), "value": make(self._random, path, schema)}

    def _is_harmful(self, path: Path_) -> bool:
        return path in HARMFUL and self._random.random() < 0.3


def follow(spec: Spec, step: Step) -> Spec:
    """The spec after a step that edits it."""
    after = copy.deepcopy(spec)
    if step["do"] == "image":
        after["$image"] = step["value"]
    elif step["do"] == "hold":
        after["paused"] = True
    elif step["do"] == "set":
        put(after, tuple(step["path"]), step["value"])
    elif step["do"] == "remove":
        _remove(after, tuple(step["path"]))
    return after


def put(spec: Spec, path: Sequence[str], value_: Any) -> None:
    """Set a property, making the objects above it."""
    for name in path[:-1]:
        below = spec.get(name)
        if not isinstance(below, dict):
            below = spec[name] = {}
        spec = below
    spec[path[-1]] = copy.deepcopy(value_)


def _remove(spec: Spec, path: Sequence[str]) -> None:
    for name in path[:-1]:
        below = spec.get(name)
        if not isinstance(below, dict):
            return
        spec = below
    spec.pop(path[-1], None)


WITH_TENSORS = (
    ("model", "version"),
    ("contract",),
    ("smokeTests",),
    ("paths", "modelReady"),
    ("paths", "metadata"),
)
"""Properties that are rejected with the protocol OpenAI, or have other values with it."""


def _is_without_tensors(spec: Spec, path: Path_) -> bool:
    """Whether one of the two is the protocol OpenAI and the other one needs tensors."""
    if path == ("protocol",):
        return any(_has(spec, each) for each in WITH_TENSORS)
    needs = any(path[: len(each)] == each for each in WITH_TENSORS)
    return needs and spec.get("protocol") == "OpenAI"


def _has(spec: Spec, path: Path_) -> bool:
    for name in path:
        if not isinstance(spec, dict) or name not in spec:
            return False
        spec = spec[name]
    return True


def _clashes(spec: Spec, path: Path_) -> bool:
    """Whether the property is rejected together with one that is set already, or stops serving."""
    below = {
        "model": {("model", "uri")},
        "rollout": {
            ("rollout", "maxSurge"),
            ("rollout", "maxUnavailable"),
            ("rollout", "strategy"),
            ("rollout", "canary"),
            ("rollout", "blueGreen", "keepSeconds"),
        },
    }
    if _is_without_tensors(spec, path):
        return True
    if path[:2] in {
        ("model", "credentials"),
        ("model", "download"),
        ("model", "files"),
        ("rollout", "blueGreen"),
    }:
        return True  # each requires another property
    if _clashes_with_route(spec, path):
        return True
    if path in {("route", "hostnames"), ("scaling", "metrics")} and path[0] not in spec:
        return True
    family = below.get(path[0], set())
    return path in family and path[0] in spec


def _clashes_with_route(spec: Spec, path: Path_) -> bool:
    """Whether the property, or one that is set already, requires others of the route."""
    route = spec.get("route", {})
    if path == ("rollout", "canary"):
        return "parentRefs" not in route
    if path == ("route", "grpc"):
        return not (route.get("parentRefs") and route.get("hostnames"))
    return path[0] == "route" and ("grpc" in route or "canary" in spec.get("rollout", {}))
