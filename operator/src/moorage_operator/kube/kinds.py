"""The kinds that the operator uses, with the verbs for each.

`verbs` lists all rights that the operator needs. A contract test checks that the chart's Role
grants exactly these, and the integration tests compare them with the actual calls. Server-side
apply needs `create` in addition to `patch`, because it creates missing objects.
"""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource of the API.

    Attributes:
        group: The API group, "" for the core group.
        version: The API version within the group.
        plural: The name in the URL.
        verbs: The RBAC verbs that the operator needs.
        subresource: "status" for the status subresource, otherwise "".
    """

    group: str
    version: str
    plural: str
    verbs: frozenset[str]
    subresource: str = ""

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the URL path of an object, of a collection in a namespace, or of all objects."""
        parts = ["/api" if not self.group else f"/apis/{self.group}", self.version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if self.subresource:
            parts.append(self.subresource)
        return "/".join(parts)

    @property
    def rbac_name(self) -> str:
        """The name of the resource in a Role."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


# The operator deletes children that are no longer planned; the garbage collector deletes those of
# a deleted model.
OWNED = frozenset({"get", "list", "watch", "create", "patch", "delete"})

INFERENCE_MODELS = Kind(
    "moorage.dev", "v1alpha1", "inferencemodels", frozenset({"get", "list", "watch"})
)
INFERENCE_MODEL_STATUS = Kind(
    "moorage.dev", "v1alpha1", "inferencemodels", frozenset({"patch"}), subresource="status"
)
# Cluster-scoped, so granted by a ClusterRole even to an operator of some namespaces.
INFERENCE_RUNTIMES = Kind(
    "moorage.dev", "v1alpha1", "inferenceruntimes", frozenset({"list", "watch"})
)
INFERENCE_RUNTIME_STATUS = Kind(
    "moorage.dev", "v1alpha1", "inferenceruntimes", frozenset({"patch"}), subresource="status"
)
# The labels of namespaces decide which of them may use a runtime.
NAMESPACES = Kind("", "v1", "namespaces", frozenset({"list", "watch"}))
DEPLOYMENTS = Kind("apps", "v1", "deployments", OWNED)
CONTROLLER_REVISIONS = Kind("apps", "v1", "controllerrevisions", OWNED)
SERVICES = Kind("", "v1", "services", OWNED)
HORIZONTAL_POD_AUTOSCALERS = Kind("autoscaling", "v2", "horizontalpodautoscalers", OWNED)
POD_DISRUPTION_BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", OWNED)
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", OWNED)
INGRESSES = Kind("networking.k8s.io", "v1", "ingresses", OWNED)
# Kinds of other projects, which not every cluster has.
SCALED_OBJECTS = Kind("keda.sh", "v1alpha1", "scaledobjects", OWNED)
HTTP_ROUTES = Kind("gateway.networking.k8s.io", "v1", "httproutes", OWNED)
GRPC_ROUTES = Kind("gateway.networking.k8s.io", "v1", "grpcroutes", OWNED)
# Read for the URLs of models behind them.
GATEWAYS = Kind("gateway.networking.k8s.io", "v1", "gateways", frozenset({"list", "watch"}))
# Owned by the Deployment controller; read for rollbacks.
REPLICA_SETS = Kind("apps", "v1", "replicasets", frozenset({"list"}))
PODS = Kind("", "v1", "pods", frozenset({"list", "watch"}))
# For the readiness gates of pods.
POD_STATUS = Kind("", "v1", "pods", frozenset({"patch"}), subresource="status")
EVENTS = Kind("events.k8s.io", "v1", "events", frozenset({"create"}))
# Objects that a model may refer to: only their metadata is read, to report missing ones.
CONFIG_MAPS = Kind("", "v1", "configmaps", frozenset({"get"}))
# Granted only by `rbac.secretHints`, `rbac.readSecrets` or a RoleBinding in a namespace. Used with
# `--secret-hints`, and for the Secrets that models name in `tls` and `access`.
SECRETS = Kind("", "v1", "secrets", frozenset({"get"}))
PERSISTENT_VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", frozenset({"get"}))

# Read at startup for the versions of kubelets and container runtimes; granted by a ClusterRole
# with `imageVolumes: auto`.
NODES = Kind("", "v1", "nodes", frozenset({"list"}))

# One object in the operator's own namespace, granted by a Role there.
LEASES = Kind("coordination.k8s.io", "v1", "leases", frozenset({"get", "create", "update"}))

# The kinds of children, by the `kind` of their manifests.
CHILDREN = {
    "Deployment": DEPLOYMENTS,
    "ControllerRevision": CONTROLLER_REVISIONS,
    "Service": SERVICES,
    "HorizontalPodAutoscaler": HORIZONTAL_POD_AUTOSCALERS,
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "NetworkPolicy": NETWORK_POLICIES,
    "Ingress": INGRESSES,
    "ScaledObject": SCALED_OBJECTS,
    "HTTPRoute": HTTP_ROUTES,
    "GRPCRoute": GRPC_ROUTES,
}
GATEWAY = "Gateway"
# Kinds that a cluster may lack; watched only while it has them. All but Gateway are children.
OPTIONAL = {
    "ScaledObject": SCALED_OBJECTS,
    "HTTPRoute": HTTP_ROUTES,
    "GRPCRoute": GRPC_ROUTES,
    GATEWAY: GATEWAYS,
}

# Granted for the whole cluster.
OF_CLUSTER = (INFERENCE_RUNTIMES, INFERENCE_RUNTIME_STATUS, NAMESPACES)

ALL = (
    INFERENCE_MODELS,
    INFERENCE_MODEL_STATUS,
    *CHILDREN.values(),
    GATEWAYS,
    REPLICA_SETS,
    PODS,
    POD_STATUS,
    EVENTS,
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
)
