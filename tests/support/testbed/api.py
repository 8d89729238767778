"""The Kubernetes API for a test: asynchronous, plain dictionaries, no cache."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from moorage_operator.kube import auth

Object = dict[str, Any]

MODELS = "/apis/moorage.dev/v1alpha1", "inferencemodels"
KINDS = {
    "InferenceModel": MODELS,
    "InferenceRuntime": ("/apis/moorage.dev/v1alpha1", "inferenceruntimes"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "ReplicaSet": ("/apis/apps/v1", "replicasets"),
    "ControllerRevision": ("/apis/apps/v1", "controllerrevisions"),
    "Service": ("/api/v1", "services"),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices"),
    "HorizontalPodAutoscaler": ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "Pod": ("/api/v1", "pods"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Secret": ("/api/v1", "secrets"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "Ingress": ("/apis/networking.k8s.io/v1", "ingresses"),
    "ScaledObject": ("/apis/keda.sh/v1alpha1", "scaledobjects"),
    "HTTPRoute": ("/apis/gateway.networking.k8s.io/v1", "httproutes"),
    "GRPCRoute": ("/apis/gateway.networking.k8s.io/v1", "grpcroutes"),
    "Gateway": ("/apis/gateway.networking.k8s.io/v1", "gateways"),
}
"""Each kind's API prefix and plural; an InferenceRuntime has the namespace ""."""


class Refused(Exception):
    """The API server answered with an error status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text[:500]}")
        self.code = code


@dataclass(frozen=True)
class Endpoint:
    """The address and credentials of an API server, from the operator's kubeconfig."""

    server: str
    context: ssl.SSLContext | None
    headers: dict[str, str]


def endpoint_of(kubeconfig: Path) -> Endpoint:
    """The endpoint of a kubeconfig's current context."""
    access = auth.from_kubeconfig([kubeconfig])
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    return Endpoint(access.server, auth.ssl_context(access), headers)


def kubeconfig_for(server: str, like: Path, made: Path) -> Path:
    """A kubeconfig for a proxy over plain HTTP, otherwise like another."""
    content = yaml.safe_load(like.read_text())
    content["clusters"] = [
        {"name": each["name"], "cluster": {"server": server}} for each in content["clusters"]
    ]
    content["users"] = [{"name": each["name"], "user": {}} for each in content["users"]]
    made.write_text(json.dumps(content))
    return made


class Api:
    """The API server as an async context."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=200, ssl=self._endpoint.context or True)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._endpoint.headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> Object:
        """The decoded answer.

        Raises:
            Refused: The status is 400 or above.
        """
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, self._endpoint.server + path, data=data, headers={"Content-Type": content_type}
        ) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise Refused(answer.status, text)
            return json.loads(text)

    async def get(self, kind: str, namespace: str, name: str) -> Object:
        """The object; empty where there is none."""
        try:
            return await self.call("GET", path_of(kind, namespace, name))
        except Refused as refused:
            if refused.code == 404:
                return {}
            raise

    async def list(self, kind: str, namespace: str, selector: str = "") -> list[Object]:
        """The objects of a namespace that a label selector leaves."""
        query = f"?labelSelector={selector}" if selector else ""
        found = await self.call("GET", path_of(kind, namespace) + query)
        return [{**each, "kind": kind} for each in found["items"]]

    async def apply(self, namespace: str, body: Object, manager: str = "user") -> Object:
        """Server-side apply, as `kubectl apply --server-side --force-conflicts` does it."""
        name = body["metadata"]["name"]
        path = path_of(body["kind"], namespace, name) + f"?fieldManager={manager}&force=true"
        return await self.call("PATCH", path, body, "application/apply-patch+yaml")

    async def create(self, namespace: str, body: Object) -> Object:
        """The object as created."""
        return await self.call("POST", path_of(body["kind"], namespace), body)

    async def patch(
        self,
        kind: str,
        namespace: str,
        name: str,
        body: Any,
        *,
        part: str = "",
        how: str = "merge",
    ) -> Object:
        """A merge patch ("merge"), or a JSON patch ("json"), of an object or a subresource."""
        path = path_of(kind, namespace, name) + (f"/{part}" if part else "")
        suffix = "json-patch" if how == "json" else f"{how}-patch"
        return await self.call("PATCH", path, body, f"application/{suffix}+json")

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        """Ask for a deletion; an object that is gone already is as well."""
        try:
            await self.call("DELETE", path_of(kind, namespace, name))
        except Refused as refused:
            if refused.code != 404:
                raise

    async def make_namespace(self, name: str) -> None:
        """A namespace in which pods can be made."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.call("POST", "/api/v1/namespaces", body)
        await until(lambda: self.get("ServiceAccount", name, "default"), 30, "service account")

    async def watch(
        self, kind: str, namespace: str = "", selector: str = ""
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Every object that there is as ADDED, and every change after that, for ever."""
        query = f"labelSelector={selector}&" if selector else ""
        while True:
            # Without a resourceVersion the server begins with an ADDED for each object.
            path = f"{path_of(kind, namespace)}?{query}watch=1"
            timeout = aiohttp.ClientTimeout(total=None)
            async with self._session.get(self._endpoint.server + path, timeout=timeout) as answer:
                if answer.status != 200:
                    raise Refused(answer.status, await answer.text())
                buffer = b""
                async for part in answer.content.iter_any():
                    *whole, buffer = (buffer + part).split(b"\n")
                    for line in whole:
                        event = json.loads(line)
                        if event["type"] in {"ADDED", "MODIFIED", "DELETED"}:
                            yield event["type"], event["object"]


def path_of(kind: str, namespace: str = "", name: str = "") -> str:
    """The path of a collection, or of an object."""
    prefix, plural = KINDS[kind]
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{prefix}{scope}/{plural}" + (f"/{name}" if name else "")


async def until(
    probe: Callable[[], Awaitable[Any]], seconds: float, what: str, pause: float = 0.05
) -> Any:
    """Wait for the first truthy result of the probe.

    Raises:
        TimeoutError: There was none in time; the message names the awaited condition.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        if found := await probe():
            return found
        if loop.time() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(pause)
