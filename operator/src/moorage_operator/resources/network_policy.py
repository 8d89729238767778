"""The NetworkPolicy: who may reach a model's pods, beside the operator that asks them.

A kubelet's probes need no rule: Kubernetes lets a node reach its own pods whatever a policy says.

Source: Kubernetes concepts, "Network Policies"; a rule without `from` lets everybody in.
"""

from collections.abc import Mapping
from typing import Any

from moorage_operator import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.config import OperatorConfig
from moorage_operator.memo import by_identity

from .owned import make_owned

__all__ = ["make_network_policy"]

# What the chart labels the operator's own pods with.
OPERATOR_LABELS = {labels.NAME: "moorage"}
# Kubernetes labels every namespace with its name.
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@by_identity
def make_network_policy(model: InferenceModel, config: OperatorConfig) -> dict[str, Any] | None:
    """The policy of a model whose spec says who may reach it; else None."""
    access = model.network_policy
    if access is None:
        return None
    ingress: list[dict[str, Any]] = [{"from": [_operator(config)]}]
    if access.from_:
        ports = model.runtime.ports
        allowed = [{"port": port, "protocol": "TCP"} for port in (ports.http, ports.grpc)]
        ingress.append({"from": [dict(peer) for peer in access.from_], "ports": allowed})
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": labels.selector(model.name)},
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    name = names.network_policy(model.name)
    return make_owned(model, "networking.k8s.io/v1", "NetworkPolicy", name, spec)


def _operator(config: OperatorConfig) -> Mapping[str, Any]:
    """The operator's pods: in its namespace where that is known, else in any."""
    of_one = {"matchLabels": {NAMESPACE_LABEL: config.namespace}} if config.namespace else {}
    return {"namespaceSelector": of_one, "podSelector": {"matchLabels": OPERATOR_LABELS}}
