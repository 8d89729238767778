"""The user's steps of each scenario, and the expected end state."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from support.testbed.api import Api, Object, until
from support.testbed.gateways import ROUTES
from support.testbed.operators import Operator
from support.testbed.servers import HOST, Server
from support.testbed.world import SCALED, World

NAME = "iris"
STEP_SECONDS = 90.0
"""A step with a fault may wait for a lease, a backoff and a relist."""

IMPATIENT = {
    "periodSeconds": 1,
    "timeoutSeconds": 10,
    "failureThreshold": 1,
    "pollIntervalSeconds": 1,
}
"""A server of the testbed answers at once or never, so a long timeout costs no time."""


def runtime_of(namespace: str) -> str:
    """The name of a run's InferenceRuntime, which is in no namespace."""
    return f"server-{namespace}"


@dataclass
class Stage:
    """One run: its own namespace, and the operators that serve it."""

    world: World
    namespace: str
    operators: list[Operator]

    @property
    def api(self) -> Api:
        """The administrator's API, without the proxy."""
        return self.world.api

    async def apply(self, image: str, server: Server, **spec: Any) -> None:
        """Write the whole spec, as `kubectl apply` does."""
        runtime = {"image": image, "ports": {"http": server.port}}
        await self._write({"runtime": runtime, "health": IMPATIENT, **spec})

    async def apply_with_runtime(self) -> None:
        """Write a spec that only names the InferenceRuntime of the run."""
        await self._write({"runtime": {"name": runtime_of(self.namespace)}, "health": IMPATIENT})

    async def _write(self, spec: Object) -> None:
        body = {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceModel",
            "metadata": {"name": NAME},
            "spec": spec,
        }
        await self.api.apply(self.namespace, body)

    async def describe(self, image: str, server: Server) -> None:
        """Write the InferenceRuntime of the run, whose edits its model follows by itself."""
        ports = {"http": server.port}
        body = {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceRuntime",
            "metadata": {"name": runtime_of(self.namespace)},
            "spec": {"image": image, "ports": ports, "updatePolicy": "Automatic"},
        }
        await self.api.apply("", body)

    async def keep(self, name: str, server: Server) -> None:
        """Create the Secrets of a server: NAME-tls and NAME-tokens."""
        assert server.issued
        secrets = {"tls": server.issued.secret, "tokens": {"client": server.token}}
        for suffix, content in secrets.items():
            body = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": f"{name}-{suffix}"}}
            await self.api.create(self.namespace, {**body, "stringData": content})

    async def has_urls(self, scheme: str) -> None:
        """Wait until every URL of the status has this scheme."""

        async def holds() -> bool:
            model = await self.api.get("InferenceModel", self.namespace, NAME)
            urls = [each["url"] for each in model["status"].get("endpoints") or []]
            return {url.partition("://")[0] for url in urls} == {scheme}

        await until(holds, STEP_SECONDS, f"URLs with {scheme}")

    async def is_scaled(self, most: int) -> None:
        """Wait until KEDA's object allows so many replicas."""

        async def holds() -> bool:
            found = await self.api.get(SCALED, self.namespace, NAME)
            return bool(found) and found["spec"]["maxReplicaCount"] == most

        await until(holds, STEP_SECONDS, f"a ScaledObject with {most} replicas")

    async def condition(self, type_: str, status: str, *reasons: str) -> None:
        """Wait until a condition of the newest generation is this."""

        async def holds() -> bool:
            model = await self.api.get("InferenceModel", self.namespace, NAME)
            return any(
                each["type"] == type_
                and each["status"] == status
                and (not reasons or each["reason"] in reasons)
                and each["observedGeneration"] == model["metadata"]["generation"]
                for each in (model.get("status") or {}).get("conditions") or []
            )

        await until(holds, STEP_SECONDS, f"{type_}={status} {' or '.join(reasons)}")

    async def serves(self, image: str) -> None:
        """Wait until this image's pods serve and no others are left."""
        await self.condition("Ready", "True", "Serving")
        await self.condition("UpToDate", "True")
        await until(self._is_described, STEP_SECONDS, "the model's metadata")

        async def only() -> bool:
            pods = await self.api.list("Pod", self.namespace)
            return {pod["spec"]["containers"][0]["image"] for pod in pods} == {image}

        await until(only, STEP_SECONDS, f"only pods of {image}")

    async def _is_described(self) -> bool:
        model = await self.api.get("InferenceModel", self.namespace, NAME)
        return "metadataHash" in (model["status"].get("model") or {})

    async def gone(self, kind: str) -> None:
        """Wait until no object of a kind is left."""

        async def none() -> bool:
            return not await self.api.list(kind, self.namespace)

        await until(none, STEP_SECONDS, f"no {kind} is left")


Play = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """A scenario.

    Attributes:
        name: For reports.
        prepare: The steps before points are counted.
        play: The steps while points are counted; returns when the end is reached.
        operators: The number of processes that share the lease; a single one needs none.
        needs: The kinds of other projects without which it is skipped.
        leaves: The kinds of the children at its end, besides a Deployment and a Service.
    """

    name: str
    prepare: Play
    play: Play
    operators: int = 1
    needs: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()


async def _nothing(_: Stage) -> None:
    pass


async def _served(stage: Stage, **spec: Any) -> None:
    await stage.apply("example/good:1", stage.world.servers.good, **spec)
    await stage.serves("example/good:1")


async def _create(stage: Stage) -> None:
    policy = {"from": [{"podSelector": {"matchLabels": {"app": "shop"}}}]}
    await _served(stage, replicas=2, networkPolicy=policy)


CHAT = {
    "name": "chat",
    "request": {"body": {"max_tokens": 4}},
    "expect": [{"jsonPath": "choices[0].message.content", "value": "version 2"}],
}


async def _edit(stage: Stage) -> None:
    checks = {"smokeTests": {"policy": "Enforce", "tests": [CHAT]}}
    await stage.apply("example/good:2", stage.world.servers.other, protocol="OpenAI", **checks)
    await stage.serves("example/good:2")


async def _roll_back(stage: Stage) -> None:
    await stage.apply("example/bad:1", stage.world.servers.broken)
    await stage.condition("UpToDate", "False", "RolledBack")
    await stage.condition("Ready", "True", "ServingPreviousRevision")


BLUE_GREEN = {"strategy": "BlueGreen", "blueGreen": {"keepSeconds": 10}}
ROUTE = {"parentRefs": [{"name": "web"}]}
CANARY = {
    "strategy": "Canary",
    "canary": {
        "steps": [{"weight": 20, "pauseSeconds": 1}, {"weight": 50, "pauseSeconds": 1}],
        "keepSeconds": 10,
    },
}


async def _blue(stage: Stage) -> None:
    await _served(stage, rollout=BLUE_GREEN)


async def _green(stage: Stage) -> None:
    await stage.apply("example/good:2", stage.world.servers.other, rollout=BLUE_GREEN)
    await stage.serves("example/good:2")


async def _routed(stage: Stage) -> None:
    await _served(stage, route=ROUTE, rollout=CANARY)


async def _canary(stage: Stage) -> None:
    other = stage.world.servers.other
    await stage.apply("example/good:2", other, route=ROUTE, rollout=CANARY)
    await stage.serves("example/good:2")


async def _scale(stage: Stage) -> None:
    for replicas in (3, 1):
        await stage.apply("example/good:1", stage.world.servers.good, replicas=replicas)

        async def counted(wanted: int = replicas) -> bool:
            return len(await stage.api.list("Pod", stage.namespace)) == wanted

        await until(counted, STEP_SECONDS, f"{replicas} pods")
        await stage.condition("Ready", "True", "Serving")
        await stage.condition("UpToDate", "True")


async def _expose(stage: Stage) -> None:
    """Add children that most models do not have, and replace them by others."""
    good, grpc = stage.world.servers.good, {"hostnames": ["grpc.example.com"]}
    route = {**ROUTE, "hostnames": ["iris.example.com"], "grpc": grpc}
    optional = {"scaling": {"maxReplicas": 3}, "access": {"tokenSecretName": "iris-tokens"}}
    await stage.apply("example/good:1", good, route=route, **optional)
    await stage.serves("example/good:1")
    await stage.condition("RouteAccepted", "True", "GatewayAccepted")
    await stage.apply("example/good:1", good, route={"ingress": {}})
    await stage.serves("example/good:1")
    for kind in ("HTTPRoute", "GRPCRoute", "HorizontalPodAutoscaler"):
        await stage.gone(kind)


def _secured_by(name: str) -> Object:
    return {
        "tls": {"secretName": f"{name}-tls", "serverName": HOST},
        "access": {"tokenSecretName": f"{name}-tokens"},
    }


async def _plain(stage: Stage) -> None:
    await stage.keep("first", stage.world.servers.secured)
    await stage.keep("second", stage.world.servers.resecured)
    await _served(stage)


async def _secure(stage: Stage) -> None:
    """Turn TLS and tokens on, name other Secrets, and turn both off."""
    servers = stage.world.servers
    await stage.apply("example/good:2", servers.secured, **_secured_by("first"))
    await stage.serves("example/good:2")
    await stage.has_urls("https")
    await stage.apply("example/good:3", servers.resecured, **_secured_by("second"))
    await stage.serves("example/good:3")
    await stage.apply("example/good:1", servers.good)
    await stage.serves("example/good:1")
    await stage.has_urls("http")


def _by_query(most: int) -> Object:
    query = {
        "type": "Prometheus",
        "serverAddress": "http://prometheus:9090",
        "query": f'sum(moorage_inferences_in_flight{{model="{NAME}"}})',
        "target": 2,
    }
    return {"minReplicas": 0, "maxReplicas": most, "metrics": [query]}


async def _scale_by_query(stage: Stage) -> None:
    """Add KEDA's object, edit it, replace it by a HorizontalPodAutoscaler, and restore it."""
    good = stage.world.servers.good
    for most in (3, 4):
        await stage.apply("example/good:1", good, scaling=_by_query(most))
        await stage.is_scaled(most)
        await stage.condition("ScalingActive", "Unknown", "AwaitingAutoscaler")
    await stage.apply("example/good:1", good, scaling={"maxReplicas": 3})
    await stage.gone(SCALED)
    await stage.apply("example/good:1", good)
    await stage.gone("HorizontalPodAutoscaler")
    await stage.apply("example/good:1", good, scaling=_by_query(5))
    await stage.is_scaled(5)
    await stage.serves("example/good:1")


async def _suspend(stage: Stage) -> None:
    await stage.apply("example/good:1", stage.world.servers.good, suspend=True)
    await stage.condition("Ready", "False", "Suspended")
    await stage.gone("Pod")
    await stage.apply("example/good:1", stage.world.servers.good)
    await stage.serves("example/good:1")


async def _pause(stage: Stage) -> None:
    """Edit a paused model and resume it."""
    await stage.apply("example/good:2", stage.world.servers.other, paused=True)
    await stage.condition("UpToDate", "False", "Paused")
    await stage.condition("Ready", "True", "ServingPreviousRevision")
    await stage.apply("example/good:2", stage.world.servers.other)
    await stage.serves("example/good:2")


async def _described(stage: Stage) -> None:
    await stage.describe("example/good:1", stage.world.servers.good)
    await stage.apply_with_runtime()
    await stage.serves("example/good:1")


async def _follow(stage: Stage) -> None:
    """Edit the InferenceRuntime of a model, and nothing else."""
    await stage.describe("example/good:2", stage.world.servers.other)
    await stage.serves("example/good:2")


async def _recreate(stage: Stage) -> None:
    await stage.api.delete("InferenceModel", stage.namespace, NAME)
    await stage.apply("example/good:2", stage.world.servers.other)
    await stage.serves("example/good:2")


async def _change_leader(stage: Stage) -> None:
    first = stage.operators[0]
    await stage.apply("example/good:2", stage.world.servers.other)
    await first.stop()
    await stage.apply("example/good:1", stage.world.servers.good)
    await first.start()
    await stage.serves("example/good:1")


SCENARIOS = (
    Scenario("create", _nothing, _create, leaves=("PodDisruptionBudget", "NetworkPolicy")),
    Scenario("edit", _served, _edit),
    Scenario("roll back", _served, _roll_back),
    Scenario("blue-green", _blue, _green),
    Scenario("canary", _routed, _canary, needs=ROUTES, leaves=("HTTPRoute", "Service")),
    Scenario("scale", _served, _scale),
    Scenario("expose", _served, _expose, needs=ROUTES, leaves=("Ingress",)),
    Scenario("secure", _plain, _secure),
    Scenario(
        "scale by query",
        _served,
        _scale_by_query,
        needs=(SCALED,),
        leaves=(SCALED, "PodDisruptionBudget"),
    ),
    Scenario("suspend", _served, _suspend),
    Scenario("pause", _served, _pause),
    Scenario("runtime", _described, _follow),
    Scenario("delete and re-create", _served, _recreate),
    Scenario("leader change", _served, _change_leader, operators=2),
)


def unexpected(scenario: Scenario, state: Object) -> list[str]:
    """The kinds of the end state, unless they are those that the scenario leaves."""
    wanted = Counter(("InferenceModel", "Deployment", "Service", *scenario.leaves))
    found = Counter(name.partition("/")[0] for name in state if "/" in name)
    return [] if found == wanted else [f"expected {dict(wanted)}, found {dict(found)}"]


def strays(state: Object) -> list[str]:
    """Children of the end state that no model owns."""
    return [
        name
        for name, body in state.items()
        if "/" in name and not name.startswith("InferenceModel") and not body["owners"]
    ]
