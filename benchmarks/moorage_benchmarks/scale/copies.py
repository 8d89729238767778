"""Copies of the operator's children of a model, for a baseline that creates them.

    a model that the operator served --> **served_children** --> **copy** --> POST

The copies cost the API server, its controllers and all watchers as much as the operator's own
children, because each probe, label and annotation is in every event of a pod.
"""

import json
from typing import Any

import aiohttp

from moorage_benchmarks.scale import objects
from moorage_benchmarks.scale.objects import BY_HAND_LABEL, PLACES, Body

SERVED = "first-0"
"""The model that is copied, the benchmark's first, with the number 0."""

KINDS = ("Service", "Deployment", "PodDisruptionBudget")
"""In the order in which they are made."""

# What the API server and its controllers have added.
ADDRESSES = {"clusterIP", "clusterIPs"}
REVISION = "deployment.kubernetes.io/revision"


async def served_children(session: aiohttp.ClientSession) -> tuple[Body, ...]:
    """The children of the model that is copied, in the order of `KINDS`.

    Raises:
        aiohttp.ClientError: The API server cannot be reached, or one of them is not there.
    """
    found: list[Body] = []
    for kind in KINDS:
        group, plural = PLACES[kind]
        path = f"{group}/namespaces/{objects.namespace(0)}/{plural}/{SERVED}"
        async with session.get(path) as answer:
            found.append({**await answer.json(), "kind": kind})
    return tuple(found)


def copy(child: Body, name: str, number: int) -> Body:
    """The same child for another name and number. Pure.

    Args:
        child: As the API server has it.
        name: Of the copy, and of the model.
        number: That of the model.
    """
    metadata = child["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(REVISION, None)
    labels = {**metadata["labels"], BY_HAND_LABEL: name}
    spec = {key: value for key, value in child["spec"].items() if key not in ADDRESSES}
    if template := spec.get("template"):
        marked = {**template["metadata"]["labels"], BY_HAND_LABEL: name}
        spec["template"] = {**template, "metadata": {**template["metadata"], "labels": marked}}
    made = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    text = json.dumps(made).replace(SERVED, name)
    text = text.replace(objects.node_name(0), objects.node_name(number))
    copied: dict[str, Any] = json.loads(text)
    copied["metadata"] |= {"name": name, "namespace": objects.namespace(number)}
    return {"apiVersion": child["apiVersion"], "kind": child["kind"], **copied}
