"""Fields of a spec that change children or pods, but not whether the model serves; pure.

A history adds some of them to its specs, from random numbers of their own, so that a new field
changes no other choice of a seed.
"""

import random
from typing import Any

Spec = dict[str, Any]

FIELDS: dict[str, tuple[Any, ...]] = {
    "access": ({"tokenSecretName": "iris-tokens"},),
    "affinity": ({"nodeAffinity": {}},),
    "disruptionBudget": ({"policy": "None"},),
    "imagePullSecrets": ([{"name": "pull"}],),
    "model": ({"name": "rose"}, {"trusted": True}),
    "networkPolicy": ({"from": []}, {"from": [{"podSelector": {"matchLabels": {"app": "shop"}}}]}),
    "nodeSelector": ({"disk": "ssd"},),
    "objectMetadata": ({"labels": {"team": "a"}}, {"annotations": {"contact": "a"}}),
    "podTemplate": (
        {"metadata": {"labels": {"team": "a"}}},
        {"spec": {"containers": [{"name": "beside", "image": "example/beside:1"}]}},
    ),
    "priorityClassName": ("system-cluster-critical",),
    "route": (
        {"ingress": {}},
        {"ingress": {"className": "nginx"}, "hostnames": ["a.example.com"]},
    ),
    "scaling": ({"maxReplicas": 4},),
    "serviceAccountName": ("served",),
    "tls": ({"secretName": "iris-tls"},),
    "tolerations": ([{"key": "gpu", "operator": "Exists"}],),
}

CHOSEN = frozenset(
    {"contract", "health", "paths", "paused", "protocol", "replicas", "rollout", "runtime",
     "smokeTests", "suspend"}
)  # fmt: skip
"""Fields that the steps of a history choose, because they decide whether the model serves."""

NEVER = {"transport": "a simulated server answers every transport alike"}
"""Fields that no history has, with the reason."""

SHARE = 0.3
MOST = 3


def with_fields(chance: random.Random, spec: Spec) -> Spec:
    """Return the spec, or one with a few more fields."""
    if chance.random() > SHARE:
        return spec
    names = chance.sample(sorted(FIELDS), chance.randint(1, MOST))
    return {**{name: chance.choice(FIELDS[name]) for name in names}, **spec}
