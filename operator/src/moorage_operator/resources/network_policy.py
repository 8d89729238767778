"""The NetworkPolicy: the peers that may connect to a model's pods, and the operator.

The kubelet's probes need no rule: a node can always reach its own pods.

Source: Kubernetes concepts, "Network Policies"; a rule without `from` allows all peers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from moorage_operator.api import labels, names
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel

from .owned import make_owned

__all__ = ["make_network_policy"]

# Kubernetes labels every namespace with its name.
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def make_network_policy(
    model: InferenceModel, config: OperatorConfig, beside: Iterable[InferenceModel] = ()
) -> dict[str, Any] | None:
    """Build the policy of a model with `spec.networkPolicy`; otherwise None.

    Args:
        model: The model to run.
        config: The operator's settings.
        beside: Other revisions that still have pods, possibly with other ports.
    """
    access = model.network_policy
    if access is None:
        return None
    ingress: list[dict[str, Any]] = [{"from": [_operator(config)]}]
    if access.from_:
        both = [each.runtime.ports for each in (model, *beside)]
        numbers = dict.fromkeys(port for ports in both for port in (ports.http, ports.grpc))
        allowed = [{"port": port, "protocol": "TCP"} for port in numbers]
        ingress.append({"from": [dict(peer) for peer in access.from_], "ports": allowed})
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": labels.selector(model.name)},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    name = names.network_policy(model.name)
    return make_owned(model, "networking.k8s.io/v1", "NetworkPolicy", name, spec)


def _operator(config: OperatorConfig) -> Mapping[str, Any]:
    """Return a peer for the operator's pods, in its namespace or, if unknown, in any."""
    of_one = {"matchLabels": {NAMESPACE_LABEL: config.namespace}} if config.namespace else {}
    own = {"matchLabels": {labels.NAME: config.name_label}}
    return {"namespaceSelector": of_one, "podSelector": own}
