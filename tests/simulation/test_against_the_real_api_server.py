"""Sends the same requests to the simulated and the real API server, and compares the responses.

Parts that the simulation omits (defaults, addresses, times) may differ; all other parts must be
equal.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from simulation.api_server import ApiServer
from simulation.stored import seen_as
from support.operator_cluster import install_crd
from support.testbed.api import Endpoint, endpoint_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CLUSTER = Path(__file__).resolve().parents[2] / "localcluster" / "cluster"
NAMESPACE = "default"
APPLY = "application/apply-patch+yaml"
PLAIN = "application/json"
JSON_PATCH = "application/json-patch+json"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
MODELS = f"/apis/moorage.dev/v1alpha1/namespaces/{NAMESPACE}/inferencemodels"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
OURS = {"fieldManager": "moorage", "force": "true"}

Object = dict[str, Any]
Send = Callable[[str, str, dict[str, str], bytes, str], Any]


@dataclass
class Side:
    """One of the two servers, with the last object by name."""

    send: Send
    seen: dict[str, Object] = field(default_factory=dict)
    answers: list[Object] = field(default_factory=list)

    async def ask(
        self,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = PLAIN,
        query: dict[str, str] | None = None,
    ) -> None:
        sent = b"" if body is None else msgspec.json.encode(body)
        code, document = await self.send(method, path, query or {}, sent, content_type)
        before = self.seen.get(name, {}).get("metadata", {})
        answer: Object = {"what": f"{method} {path}", "code": code}
        if code >= 400:
            answer["reason"] = document.get("reason")
        elif method != "DELETE":
            metadata = document["metadata"]
            answer["object"] = document
            answer["written"] = before.get("resourceVersion") != metadata["resourceVersion"]
            answer["same"] = before.get("uid") == metadata["uid"]
            answer["ours"] = [
                each["fieldsV1"]
                for each in metadata.get("managedFields") or []
                if each["manager"] == "moorage" and each["operation"] == "Apply"
            ]
            self.seen[name] = document
        self.answers.append(answer)

    async def find(self, path: str, query: dict[str, str]) -> None:
        """Record the names of a list."""
        code, document = await self.send("GET", path, query, b"", PLAIN)
        found = [each["metadata"]["name"] for each in document["items"]]
        self.answers.append({"what": f"GET {path} {query}", "code": code, "names": found})

    def metadata(self, name: str) -> Object:
        """The last metadata of the object."""
        return self.seen[name]["metadata"]


def meta(name: str, **more: Any) -> Object:
    return {"name": name, "namespace": NAMESPACE, **more}


def service(
    selector: str = "a", ports: tuple[tuple[str, int], ...] = (("http", 8000),), **more: Any
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta("iris", labels={"app": "iris"}, annotations={"hash": selector}, **more),
        "spec": {
            "selector": {"app": selector},
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
                for name, port in ports
            ],
        },
    }


HTTP_PROBE = {"httpGet": {"path": "/live", "port": 8000, "scheme": "HTTP"}}
TCP_PROBE = {"tcpSocket": {"port": 8000}}


def deployment(
    image: str = "example/good:1", *, env: bool = True, probe: Object = HTTP_PROBE, **more: Any
) -> Object:
    container: Object = {
        "name": "runtime",
        "image": image,
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "securityContext": {"capabilities": {"drop": ["ALL"]}},
        "livenessProbe": {**probe, "periodSeconds": 10},
    }
    if env:
        container["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    marks = {"app": "iris"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta("iris", labels=marks, **more),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": marks},
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": marks}, "spec": {"containers": [container]}},
        },
    }


def model(image: str = "example/good:1") -> Object:
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": meta("iris"),
        "spec": {"runtime": {"image": image}},
    }


def status(generation: int, reason: str = "Serving", **metadata: Any) -> Object:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": reason,
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": meta("iris", **metadata),
        "status": {"observedGeneration": generation, "conditions": [condition]},
    }


async def apply_children(side: Side) -> None:
    path, patch = f"{SERVICES}/iris", (APPLY, OURS)
    await side.ask("service", "PATCH", path, service(resourceVersion="1"), *patch)
    await side.ask("service", "PATCH", path, service(), *patch)
    await side.ask("service", "PATCH", path, service(resourceVersion="1"), *patch)
    await side.ask(
        "service", "PATCH", path, service(uid="11111111-1111-1111-1111-111111111111"), *patch
    )
    await side.ask("service", "PATCH", path, service("b"), *patch)
    await side.ask(
        "service", "PATCH", path, service("b", (("http", 8000), ("grpc", 8001))), *patch
    )
    await side.ask("service", "PATCH", path, service("b", (("grpc", 8001),)), *patch)
    await side.ask("service", "POST", SERVICES, service())
    path = f"{DEPLOYMENTS}/iris"
    await side.ask("deployment", "PATCH", path, deployment(), *patch)
    await side.ask("deployment", "PATCH", path, deployment("example/good:2"), *patch)
    await side.ask("deployment", "PATCH", path, deployment(probe=TCP_PROBE), *patch)
    await side.ask("deployment", "PATCH", path, deployment("example/good:2", env=False), *patch)
    await side.ask("deployment", "PATCH", path, deployment("example/good:2", env=False), *patch)


async def tamper(side: Side) -> None:
    """Another manager applies other values, and the operator restores its fields."""
    path, theirs = f"{DEPLOYMENTS}/iris", {"fieldManager": "someone", "force": "true"}
    foreign = deployment("example/foreign:1", env=False)
    await side.ask("deployment", "PATCH", path, foreign, APPLY, theirs)
    await side.ask(
        "deployment", "PATCH", path, deployment("example/good:2", env=False), APPLY, OURS
    )
    metadata = side.metadata("deployment")
    patch = [
        {"op": "add", "path": "/metadata/labels", "value": {"app": "iris", "team": "a"}},
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": metadata["resourceVersion"],
        },
    ]
    await side.ask("deployment", "PATCH", path, patch, JSON_PATCH)
    await side.ask("deployment", "PATCH", path, patch, JSON_PATCH)
    await side.ask("deployment", "GET", path)


async def write_statuses(side: Side) -> None:
    path, query = f"{MODELS}/iris", {"fieldManager": "moorage-status", "force": "true"}
    await side.ask("model", "PATCH", f"{path}/status", status(1), APPLY, query)
    await side.ask("model", "POST", MODELS, model())
    first = side.metadata("model")
    await side.ask("model", "PATCH", f"{path}/status", status(1, uid=first["uid"]), APPLY, query)
    await side.ask("model", "PATCH", f"{path}/status", status(1, uid=first["uid"]), APPLY, query)
    stale = {"resourceVersion": first["resourceVersion"]}
    await side.ask("model", "PATCH", f"{path}/status", status(1, "Pending", **stale), APPLY, query)
    fresh = {"resourceVersion": side.metadata("model")["resourceVersion"]}
    await side.ask("model", "PATCH", f"{path}/status", status(1, "Pending", **fresh), APPLY, query)
    other = {"uid": "11111111-1111-1111-1111-111111111111"}
    await side.ask("model", "PATCH", f"{path}/status", status(1, "Other", **other), APPLY, query)
    await side.ask("model", "GET", path)
    for name, labels in (("iris", ""), ("iris", "team=a"), ("other", "")):
        of_name = {"fieldSelector": f"metadata.name={name}", "labelSelector": labels}
        await side.find(MODELS, of_name)


async def write_gates(side: Side) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta("iris-1"),
        "spec": {"containers": [{"name": "runtime", "image": "example/good:1"}]},
    }
    await side.ask("pod", "POST", PODS, pod)
    gate = {
        "type": "moorage.dev/model-ready",
        "status": "True",
        "reason": "ModelReady",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }

    def body(**metadata: Any) -> Object:
        head = {"apiVersion": "v1", "kind": "Pod", "metadata": meta("iris-1", **metadata)}
        return {**head, "status": {"conditions": [gate]}}

    path, query = f"{PODS}/iris-1/status", {"fieldManager": "moorage-status", "force": "true"}
    wrong = "11111111-1111-1111-1111-111111111111"
    await side.ask("pod", "PATCH", path, body(uid=side.metadata("pod")["uid"]), APPLY, query)
    await side.ask("pod", "PATCH", path, body(uid=wrong), APPLY, query)
    gone = {**body(), "metadata": meta("iris-2", uid=wrong)}
    await side.ask("gone", "PATCH", path.replace("iris-1", "iris-2"), gone, APPLY, query)


async def delete(side: Side) -> None:
    path = f"{SERVICES}/iris"
    metadata = side.metadata("service")
    right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    wrong = {"uid": "11111111-1111-1111-1111-111111111111"}
    stale = {**right, "resourceVersion": "1"}
    for preconditions in (wrong, stale, right, right):
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
            "propagationPolicy": "Background",
        }
        await side.ask("service", "DELETE", path, options)
    await side.ask("service", "GET", path)


TRACE = (apply_children, tamper, write_statuses, write_gates, delete)


def missing(shown: Any, real: Any, path: str = "") -> Iterator[str]:
    """Return parts of the simulated answer that the real one does not have."""
    if isinstance(shown, dict) and isinstance(real, dict):
        for name, value in shown.items():
            if name in VARY:
                continue
            if name not in real:
                yield f"{path}.{name}: {value!r} is not there"
            else:
                yield from missing(value, real[name], f"{path}.{name}")
    elif isinstance(shown, list) and isinstance(real, list) and len(shown) == len(real):
        for index, (mine, theirs) in enumerate(zip(shown, real, strict=True)):
            yield from missing(mine, theirs, f"{path}[{index}]")
    elif shown != real:
        yield f"{path}: {shown!r} is {real!r}"


VARY = {"uid", "resourceVersion", "creationTimestamp", "managedFields"}
NOT_COUNTED = {"Service", "Pod"}
"""Kinds without a generation, or whose generation is never read."""


def differences(simulated: list[Object], real: list[Object]) -> Iterator[str]:
    for mine, theirs in zip(simulated, real, strict=True):
        for name in ("what", "code", "reason", "written", "same", "ours", "names"):
            if mine.get(name) != theirs.get(name):
                yield f"{mine['what']}: {name} {mine.get(name)!r} is {theirs.get(name)!r}"
        shown = msgspec.json.decode(msgspec.json.encode(mine.get("object") or {}))
        if shown.get("kind") in NOT_COUNTED:
            shown["metadata"].pop("generation", None)
        yield from (f"{mine['what']}{each}" for each in missing(shown, theirs.get("object") or {}))


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """A kube-apiserver without controllers, which would change the objects of the trace."""
    folder = tmp_path_factory.mktemp("control-plane")
    command = [sys.executable, CLUSTER, "control-plane"]
    try:
        subprocess.run([*command, "up", "--dir", folder], check=True, timeout=110)
        install_crd(folder / "kubeconfig")
        yield endpoint_of(folder / "kubeconfig")
    finally:
        subprocess.run([*command, "down", "--dir", folder], check=True, timeout=60)


async def test_the_simulated_api_server_answers_as_the_real_one(endpoint: Endpoint) -> None:
    api = ApiServer(lambda: 0.0)

    async def simulated(
        method: str, path: str, query: dict[str, str], body: bytes, content_type: str
    ) -> tuple[int, Object]:
        answer = api.handle(method, path, query, body, "unknown", content_type)
        return answer.code, msgspec.json.decode(answer.body)

    connector = aiohttp.TCPConnector(ssl=endpoint.context or True)
    async with aiohttp.ClientSession(connector=connector, headers=endpoint.headers) as session:
        await _until_pods_can_be_made(session, endpoint)

        async def real(
            method: str, path: str, query: dict[str, str], body: bytes, content_type: str
        ) -> tuple[int, Object]:
            headers = {"Content-Type": content_type}
            async with session.request(
                method, endpoint.server + path, params=query, data=body or None, headers=headers
            ) as answer:
                return answer.status, await answer.json()

        sides = Side(simulated), Side(real)
        for side in sides:
            for part in TRACE:
                await part(side)

        events = await _events(session, endpoint)

    found = list(differences(sides[0].answers, sides[1].answers))
    print("\n".join(found))
    assert found == []
    assert len(sides[1].answers) > 30
    assert [
        seen_as(each, NAMESPACE, "app=iris") for each in api.events("deployments", 0)
    ] == events


async def _until_pods_can_be_made(session: aiohttp.ClientSession, endpoint: Endpoint) -> None:
    """Create the service account that a controller would create."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    path = f"{endpoint.server}/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    for _ in range(100):
        async with session.post(path, json=body) as answer:
            if answer.status in {201, 409}:
                return
        await asyncio.sleep(0.2)
    raise TimeoutError("the namespace default does not come")


async def _events(session: aiohttp.ClientSession, endpoint: Endpoint) -> list[str]:
    """Return all events of a watch of Deployments with a selector."""
    query = {
        "watch": "1",
        "resourceVersion": "1",
        "labelSelector": "app=iris",
        "timeoutSeconds": "1",
    }
    async with session.get(endpoint.server + DEPLOYMENTS, params=query) as answer:
        text = await answer.text()
    return [str(msgspec.json.decode(line)["type"]) for line in text.splitlines()]
