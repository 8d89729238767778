"""The kinds that the operator touches and what it does to each.

`verbs` is the operator's whole need of rights: the chart's Role must grant exactly these, which a
contract test compares, and the integration tests compare them with the calls that were made.
Server-side apply needs `create` beside `patch`, because applying an absent object creates it.
"""

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource of the API.

    Attributes:
        group: API group, "" for the core group.
        version: API version within the group.
        plural: Name in the URL.
        verbs: What the operator does to it, in RBAC's words.
        subresource: "status" for the status subresource, else "".
    """

    group: str
    version: str
    plural: str
    verbs: frozenset[str]
    subresource: str = ""

    def path(self, namespace: str = "", name: str = "") -> str:
        """URL path of an object, of a namespace's collection, or of all."""
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
        """The resource as a Role names it."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


# Deleted by the operator when the plan has no use for one any more; when its model goes, owner
# references and the garbage collector do it.
OWNED = frozenset({"get", "list", "watch", "create", "patch", "delete"})

INFERENCE_MODELS = Kind(
    "moorage.dev", "v1alpha1", "inferencemodels", frozenset({"get", "list", "watch"})
)
INFERENCE_MODEL_STATUS = Kind(
    "moorage.dev", "v1alpha1", "inferencemodels", frozenset({"patch"}), subresource="status"
)
DEPLOYMENTS = Kind("apps", "v1", "deployments", OWNED)
CONTROLLER_REVISIONS = Kind("apps", "v1", "controllerrevisions", OWNED)
SERVICES = Kind("", "v1", "services", OWNED)
HORIZONTAL_POD_AUTOSCALERS = Kind("autoscaling", "v2", "horizontalpodautoscalers", OWNED)
POD_DISRUPTION_BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", OWNED)
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", OWNED)
# Of projects beside Kubernetes: there in some clusters, and not in others.
SCALED_OBJECTS = Kind("keda.sh", "v1alpha1", "scaledobjects", OWNED)
HTTP_ROUTES = Kind("gateway.networking.k8s.io", "v1", "httproutes", OWNED)
# The Deployment controller's own; read when a rollout has to know them.
REPLICA_SETS = Kind("apps", "v1", "replicasets", frozenset({"list"}))
PODS = Kind("", "v1", "pods", frozenset({"list", "watch"}))
# The readiness gate of pods whose kubelet cannot see the model.
POD_STATUS = Kind("", "v1", "pods", frozenset({"patch"}), subresource="status")
EVENTS = Kind("events.k8s.io", "v1", "events", frozenset({"create"}))
# The three that a model may name: read as metadata only, to say what is missing.
CONFIG_MAPS = Kind("", "v1", "configmaps", frozenset({"get"}))
SECRETS = Kind("", "v1", "secrets", frozenset({"get"}))
PERSISTENT_VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", frozenset({"get"}))

# Read at the start, for what their kubelets and container runtimes can do; by a ClusterRole that
# goes with `imageVolumes: auto`.
NODES = Kind("", "v1", "nodes", frozenset({"list"}))

# One object in the operator's own namespace, which a Role there grants.
LEASES = Kind("coordination.k8s.io", "v1", "leases", frozenset({"get", "create", "update"}))

# What a model's children are, by the `kind` of their manifests: only these are applied, watched,
# mended and deleted.
CHILDREN = {
    "Deployment": DEPLOYMENTS,
    "ControllerRevision": CONTROLLER_REVISIONS,
    "Service": SERVICES,
    "HorizontalPodAutoscaler": HORIZONTAL_POD_AUTOSCALERS,
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "NetworkPolicy": NETWORK_POLICIES,
    "ScaledObject": SCALED_OBJECTS,
    "HTTPRoute": HTTP_ROUTES,
}
# Children of kinds that a cluster may lack: watched only while it has them.
OPTIONAL = frozenset({"ScaledObject", "HTTPRoute"})

ALL = (
    INFERENCE_MODELS,
    INFERENCE_MODEL_STATUS,
    *CHILDREN.values(),
    REPLICA_SETS,
    PODS,
    POD_STATUS,
    EVENTS,
    CONFIG_MAPS,
    SECRETS,
    PERSISTENT_VOLUME_CLAIMS,
)
