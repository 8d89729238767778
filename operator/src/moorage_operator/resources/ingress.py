"""The Ingress of a model, for clusters without the Gateway API.

It refers to the Service's HTTP port by name, so an edit of `runtime.ports` does not change it.

Source: Kubernetes API, networking.k8s.io/v1 Ingress.
"""

from typing import Any

from moorage_operator.api import names
from moorage_operator.api.route import IngressRoute
from moorage_operator.api.v1alpha1 import InferenceModel

from .owned import make_owned

__all__ = ["INGRESS", "make_ingress"]

INGRESS = "Ingress"


def make_ingress(model: InferenceModel, ingress: IngressRoute) -> dict[str, Any]:
    """Build the Ingress for the route's host names, or for every host without any."""
    service = {"name": names.service(model.name), "port": {"name": names.HTTP_PORT}}
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": service}}
    rule: dict[str, Any] = {"http": {"paths": [path]}}
    hostnames = list(model.route.hostnames)
    spec: dict[str, Any] = {"rules": [{"host": host, **rule} for host in hostnames] or [rule]}
    if ingress.class_name:
        spec["ingressClassName"] = ingress.class_name
    if ingress.tls_secret_name:
        tls: dict[str, Any] = {"secretName": ingress.tls_secret_name}
        spec["tls"] = [{"hosts": hostnames, **tls} if hostnames else tls]
    return make_owned(
        model,
        "networking.k8s.io/v1",
        INGRESS,
        names.ingress(model.name),
        spec,
        annotations=ingress.annotations,
    )
