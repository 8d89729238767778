"""Deletes what a case without the operator created, so that the next case starts clean.

No garbage collector runs during the benchmark, so each kind is deleted separately, owners first.
"""

from typing import Any

from moorage_benchmarks.scale.minimal_controller import connected
from moorage_benchmarks.scale.objects import BY_HAND_LABEL, NAMESPACES, PLACES

KINDS = (
    ("/apis/moorage.dev/v1alpha1", "inferencemodels"),
    PLACES["Deployment"],
    ("/apis/apps/v1", "replicasets"),
    ("/api/v1", "pods"),
    PLACES["Service"],
    PLACES["PodDisruptionBudget"],
)


async def clear(content: dict[str, Any]) -> None:
    """Delete all of it, as the user of a kubeconfig, until nothing of it is left.

    A controller that has not heard of its ReplicaSet's end may make one more pod.

    Raises:
        aiohttp.ClientError: The API server cannot be reached, or refuses.
    """
    async with connected(content) as session:
        for group, plural in KINDS:
            for namespace in NAMESPACES:
                path = f"{group}/namespaces/{namespace}/{plural}"
                mine = {"labelSelector": BY_HAND_LABEL}
                left = True
                while left:
                    now = {**mine, "gracePeriodSeconds": "0"}
                    async with session.delete(path, params=now) as answer:
                        await answer.read()
                    async with session.get(path, params={**mine, "limit": "1"}) as answer:
                        left = bool((await answer.json())["items"])
