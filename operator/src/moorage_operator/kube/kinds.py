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


# Never deleted by the operator: owner references and the garbage collector do that.
OWNED = frozenset({"get", "list", "watch", "create", "patch"})

INFERENCE_MODELS = Kind(
    "moorage.dev", "v1alpha1", "inferencemodels", frozenset({"get", "list", "watch"})
)
INFERENCE_MODEL_STATUS = Kind(
    "moorage.dev", "v1alpha1", "inferencemodels", frozenset({"patch"}), subresource="status"
)
DEPLOYMENTS = Kind("apps", "v1", "deployments", OWNED)
SERVICES = Kind("", "v1", "services", OWNED)
PODS = Kind("", "v1", "pods", frozenset({"list", "watch"}))
# The readiness gate of pods whose kubelet cannot see the model.
POD_STATUS = Kind("", "v1", "pods", frozenset({"patch"}), subresource="status")
EVENTS = Kind("events.k8s.io", "v1", "events", frozenset({"create"}))
# The three that a model may name: read as metadata only, to say what is missing.
CONFIG_MAPS = Kind("", "v1", "configmaps", frozenset({"get"}))
SECRETS = Kind("", "v1", "secrets", frozenset({"get"}))
PERSISTENT_VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", frozenset({"get"}))

# One object in the operator's own namespace, which a Role there grants.
LEASES = Kind("coordination.k8s.io", "v1", "leases", frozenset({"get", "create", "update"}))

ALL = (
    INFERENCE_MODELS,
    INFERENCE_MODEL_STATUS,
    DEPLOYMENTS,
    SERVICES,
    PODS,
    POD_STATUS,
    EVENTS,
    CONFIG_MAPS,
    SECRETS,
    PERSISTENT_VOLUME_CLAIMS,
)

# What a model's children are, by the `kind` of their manifests: only these are applied.
CHILDREN = {"Deployment": DEPLOYMENTS, "Service": SERVICES}
