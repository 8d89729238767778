"""What the operator says about an object that it may not read; pure.

watch.read_access, watch.runtimes --> kinds that cannot be read --> **may_not_read** --> conditions
"""

__all__ = ["REPORTING", "may_not_read"]

RESOURCES = {
    "HTTPRoute": "httproutes.gateway.networking.k8s.io",
    "GRPCRoute": "grpcroutes.gateway.networking.k8s.io",
    "Ingress": "ingresses.networking.k8s.io",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers.autoscaling",
    "ScaledObject": "scaledobjects.keda.sh",
    "InferenceRuntime": "inferenceruntimes.moorage.dev",
}

REPORTING = frozenset(RESOURCES) - {"InferenceRuntime"}
"""The kinds of children from whose status a condition of the model is decided."""


def may_not_read(kind: str, namespace: str = "") -> str:
    """Say which right is missing.

    Args:
        kind: A kind of `RESOURCES`.
        namespace: The namespace of the objects; "" for a cluster-scoped kind.
    """
    where = f"in the namespace {namespace!r}" if namespace else "by a ClusterRole"
    return (
        f"the operator may not read the kind {kind}: grant it list and watch on "
        f"{RESOURCES[kind]} {where}"
    )
