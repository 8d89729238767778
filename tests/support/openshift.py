"""OpenShift's constraint restricted-v2, as a webhook on the pods of labelled namespaces.

Like OpenShift, it gives a pod a user and a group of the namespace's range, and refuses a pod that
asks for others. No image knows that user, so its pods have the group 0.
"""

import base64
import copy
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.certificates import Authority
from support.kubectl import Kubectl

__all__ = ["CONSTRAINTS", "LABEL", "USER", "restricting"]

CONSTRAINTS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "securitycontextconstraints.security.openshift.io"},
    "spec": {
        "group": "security.openshift.io",
        "names": {"kind": "SecurityContextConstraints", "plural": "securitycontextconstraints"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}
"""The group of this kind is how clients recognize OpenShift."""
LABEL = "restricted-v2.example"
"""A namespace with this label has the constraint."""
USER = 1000650000
RANGE = range(USER, USER + 10_000)
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip


def _restrict(spec: dict[str, Any]) -> list[str]:
    """Complete the spec of a pod; return what is not allowed in it."""
    context = spec.setdefault("securityContext", {})
    context.setdefault("fsGroup", USER)
    wrong = [f"fsGroup {context['fsGroup']}"] if context["fsGroup"] not in RANGE else []
    for volume in spec.get("volumes", []):
        wrong += [f"a volume of {kind}" for kind in volume.keys() - VOLUMES - {"name"}]
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        own = container.setdefault("securityContext", {})
        user = own.setdefault("runAsUser", context.get("runAsUser", USER))
        wrong += [f"runAsUser {user}"] if user not in RANGE else []
        own.setdefault("runAsNonRoot", True)
        own.setdefault("allowPrivilegeEscalation", False)
        own.setdefault("capabilities", {"drop": ["ALL"]})
        wrong += ["privilege escalation"] if own["allowPrivilegeEscalation"] else []
    return wrong


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    spec = copy.deepcopy(request["object"]["spec"])
    if wrong := _restrict(spec):
        message = f"provider restricted-v2: not allowed: {', '.join(wrong)}"
        status = {"code": 403, "reason": "Forbidden", "message": message}
        return {"uid": request["uid"], "allowed": False, "status": status}
    patch = json.dumps([{"op": "replace", "path": "/spec", "value": spec}]).encode()
    encoded = base64.b64encode(patch).decode()
    return {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch", "patch": encoded}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {**review, "request": None, "response": _answer(review["request"])}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def restricting(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """New pods of namespaces with the label are restricted until the block ends."""
    issued = Authority("webhook CA").issue("localhost")
    pem = folder / "webhook.pem"
    pem.write_text(issued.certificate + issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    kubectl.apply(_configuration(server.server_port, issued.authority))
    try:
        yield
    finally:
        kubectl.run("delete", "mutatingwebhookconfiguration", "restricted-v2")
        server.shutdown()
        server.server_close()
        thread.join()


def _configuration(port: int, authority: str) -> dict[str, Any]:
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    hook = {
        "name": "restricted-v2.openshift.example",
        "clientConfig": {
            "url": f"https://localhost:{port}/",
            "caBundle": base64.b64encode(authority.encode()).decode(),
        },
        "rules": [{**pods, "operations": ["CREATE"]}],
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {LABEL: "true"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "restricted-v2"},
        "webhooks": [hook],
    }
