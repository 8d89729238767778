"""A mutating admission webhook that changes objects of some kinds in one namespace.

Policy engines and clusters that size pods themselves change objects in this way.
"""

import base64
import copy
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.admission import answer_to_probe, rule_of
from support.certificates import Authority
from support.operator_cluster import Api, eventually

MARK = "mutated.example"
"""The annotation of each changed object."""

Change = Callable[[dict[str, Any]], None]


def _patch(before: dict[str, Any], change: Change) -> list[dict[str, Any]]:
    """Return the JSON patch of a change of the spec or the metadata."""
    after = copy.deepcopy(before)
    change(after)
    after["metadata"].setdefault("annotations", {})[MARK] = "true"
    return [
        {"op": "add", "path": f"/{part}", "value": after[part]}
        for part in ("metadata", "spec")
        if after[part] != before[part]
    ]


def _handler(change: Change) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            patch = json.dumps(_patch(request["object"], change)).encode()
            answer = {
                "uid": request["uid"],
                "allowed": True,
                "patchType": "JSONPatch",
                "patch": base64.b64encode(patch).decode(),
            }
            body = json.dumps({**review, "request": None, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


@contextmanager
def mutating(api: Api, folder: Path, change: Change, *kinds: str) -> Iterator[None]:
    """Created and updated objects of these kinds are changed until the block ends."""
    authority = Authority("webhook CA")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(change))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = folder / "webhook.pem"
    issued = authority.issue("localhost")
    pem.write_text(issued.certificate + issued.key)
    context.load_cert_chain(pem)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    name = f"mutate-{api.namespace}"
    hook = {
        "name": "changes.objects.example",
        "clientConfig": {
            "url": f"https://localhost:{server.server_port}/",
            "caBundle": base64.b64encode(issued.authority.encode()).decode(),
        },
        "rules": [rule_of(kind) for kind in kinds],
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "reinvocationPolicy": "IfNeeded",
    }
    api.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }
    )
    try:
        for kind in kinds:
            eventually(f"{kind} is changed", lambda kind=kind: MARK in answer_to_probe(api, kind))
        yield
    finally:
        api.delete("MutatingWebhookConfiguration", name)
        server.shutdown()
        server.server_close()
        thread.join()
