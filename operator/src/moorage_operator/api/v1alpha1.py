"""InferenceModel v1alpha1 as frozen values: `parse` fills in defaults and lists problems.

The CRD (`crds/inferencemodels.yaml`) describes the same API in OpenAPI; `tests/contract` compares
the two. Types of Kubernetes itself (resources, tolerations, affinity, the pod template) remain
mappings: the API server validates them when the Deployment is applied.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, cast

from .access import Tls, TokenAccess, parse_tls, parse_token_access
from .canary import Canary, CanaryStep
from .contract import Contract, ContractPolicy, DeclaredTensor, parse_contract
from .fields import Fields, Problem
from .http_paths import parse_path
from .model_names import check_model_name
from .model_spec import Credentials, Download, Files, ModelSpec, parse_model, parse_object_name
from .model_uri import ModelUri, Scheme
from .object_metadata import ObjectMetadata, parse_object_metadata
from .rollout import BlueGreen, OnFailure, Rollout, Strategy, parse_rollout
from .route import GrpcRoute, IngressRoute, ParentRef, Route, parse_route
from .scaling import MetricType, Scaling, ScalingMetric, parse_scaling
from .smoke_tests import SmokeTest, SmokeTestPolicy, SmokeTests, digest_of, parse_smoke_tests
from .tensorless import check_requests, check_without_tensors
from .written_spec import NOTHING_WRITTEN, WrittenSpec, write_spec

__all__ = [
    "GROUP",
    "BlueGreen",
    "Canary",
    "CanaryStep",
    "Contract",
    "ContractPolicy",
    "Credentials",
    "DeclaredTensor",
    "DisruptionBudget",
    "DisruptionPolicy",
    "Download",
    "Files",
    "GrpcRoute",
    "Health",
    "InferenceModel",
    "IngressRoute",
    "MetricType",
    "ModelSpec",
    "ModelUri",
    "NetworkAccess",
    "ObjectMetadata",
    "OnFailure",
    "ParentRef",
    "PathOverrides",
    "Ports",
    "Problem",
    "Protocol",
    "ReadinessTarget",
    "Rollout",
    "Route",
    "RuntimeSpec",
    "Scaling",
    "ScalingMetric",
    "Scheduling",
    "Scheme",
    "SmokeTest",
    "SmokeTestPolicy",
    "SmokeTests",
    "Strategy",
    "Tls",
    "TokenAccess",
    "Transport",
    "WrittenSpec",
    "is_parsed_from",
    "parse",
]

GROUP = "moorage.dev"

# Time for scheduling a pod and pulling its image: an estimate.
PULL_ALLOWANCE_SECONDS = 300
# Time for downloading a model of 100 GB at 55 MB/s: an estimate as well.
FETCH_ALLOWANCE_SECONDS = 1800

# TensorFlow Serving numbers the versions of a model.
TENSORFLOW_VERSION = re.compile(r"[0-9]+")


class Protocol(StrEnum):
    """Protocols for querying a model server.

    With `Auto` the operator detects the protocol. With `None` it asks only for the health of an
    HTTP server, which may serve anything.
    """

    AUTO = "Auto"
    OPEN_INFERENCE = "OpenInference"
    TENSORFLOW_SERVING = "TensorFlowServing"
    GRPS = "GRPS"
    OPENAI = "OpenAI"
    NONE = "None"

    @property
    def has_tensors(self) -> bool:
        """Whether models have tensors, which a contract and smoke tests can refer to."""
        return self not in {Protocol.OPENAI, Protocol.NONE}


class Transport(StrEnum):
    """The transport of the operator's queries and of the probes."""

    HTTP = "HTTP"
    GRPC = "GRPC"


class DisruptionPolicy(StrEnum):
    """Whether a model with several replicas gets a PodDisruptionBudget."""

    AUTO = "Auto"
    NONE = "None"


class ReadinessTarget(StrEnum):
    """What determines the readiness of a pod: the model, or the server as a whole."""

    MODEL = "Model"
    SERVER = "Server"


@dataclass(frozen=True, slots=True)
class Ports:
    """`spec.runtime.ports`: the ports of the container and the Service."""

    http: int = 8000
    grpc: int = 8001


@dataclass(frozen=True, slots=True)
class RuntimeSpec:
    """`spec.runtime`; an empty `image` means the bundled runtime.

    `name` is that of an InferenceRuntime; "" if the spec does not name one.
    """

    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] | None = None
    ports: Ports = Ports()
    name: str = ""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """`spec.disruptionBudget`."""

    policy: DisruptionPolicy = DisruptionPolicy.AUTO


@dataclass(frozen=True, slots=True)
class PathOverrides:
    """`spec.paths`: paths that override those of the protocol; empty means no override."""

    live: str = ""
    ready: str = ""
    model_ready: str = ""
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """`spec.health`, in seconds and counts."""

    startup_timeout_seconds: int = 600
    period_seconds: int = 5
    timeout_seconds: int = 2
    failure_threshold: int = 3
    poll_interval_seconds: int = 30
    termination_grace_period_seconds: int = 30
    readiness_target: ReadinessTarget = ReadinessTarget.MODEL


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """`spec.networkPolicy`: NetworkPolicy peers that may connect to the model's ports."""

    from_: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Fields of the spec that are copied to the pod."""

    node_selector: Mapping[str, Any]
    tolerations: tuple[Mapping[str, Any], ...]
    affinity: Mapping[str, Any]
    priority_class_name: str
    service_account_name: str
    image_pull_secrets: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class InferenceModel:
    """One resource with all defaults; a resource with `problems` is not accepted.

    `smoke_digest` identifies the smoke tests. `written` is the spec in the names of the API, which
    identifies it and is kept with its revision.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    replicas: int
    suspend: bool
    paused: bool
    scaling: Scaling
    disruption_budget: DisruptionBudget
    network_policy: NetworkAccess | None
    tls: Tls
    access: TokenAccess
    route: Route
    object_metadata: ObjectMetadata
    model: ModelSpec
    protocol: Protocol
    transport: Transport
    runtime: RuntimeSpec
    paths: PathOverrides
    health: Health
    contract: Contract
    smoke_tests: SmokeTests
    smoke_digest: str
    rollout: Rollout
    scheduling: Scheduling
    pod_template: Mapping[str, Any]
    problems: tuple[Problem, ...]
    written: WrittenSpec = field(compare=False)

    @property
    def progress_deadline_seconds(self) -> int:
        """How long a rollout may make no progress: 900 s by default, with 600 s to start."""
        written = self.rollout.progress_deadline_seconds
        uri = self.model.uri
        fetching = FETCH_ALLOWANCE_SECONDS if uri and uri.scheme.is_fetched else 0
        starting = self.health.startup_timeout_seconds + PULL_ALLOWANCE_SECONDS
        return written or starting + fetching

    @property
    def desired_replicas(self) -> int:
        """The number of replicas that should run now."""
        return 0 if self.suspend else self.scaling.within(self.replicas)

    @property
    def enforces(self) -> bool:
        """Whether traffic requires more than a ready model: a contract or smoke tests."""
        return self.contract.is_enforced or self.smoke_tests.is_enforced


def parse(body: Mapping[str, Any], *, is_whole: bool = True) -> InferenceModel:
    """Parse a resource; never raises for user input.

    Args:
        body: The resource.
        is_whole: Whether to check that the fields fit together; not for a part of a spec.
    """
    metadata = cast("Mapping[str, Any]", body["metadata"])
    name = str(metadata["name"])
    problems: list[Problem] = []
    spec = Fields(body.get("spec"), "spec", problems)
    smoke_tests = parse_smoke_tests(spec.child("smokeTests"))
    parsed = InferenceModel(
        namespace=str(metadata["namespace"]),
        name=name,
        uid=str(metadata["uid"]),
        generation=int(metadata.get("generation", 0)),
        deleting="deletionTimestamp" in metadata,
        replicas=spec.integer("replicas", 1, 0, 2**31 - 1),
        suspend=spec.flag("suspend", default=False),
        paused=spec.flag("paused", default=False),
        scaling=parse_scaling(spec.child("scaling")),
        disruption_budget=_parse_disruption_budget(spec.child("disruptionBudget")),
        network_policy=_parse_network_policy(spec),
        tls=parse_tls(spec.child("tls")),
        access=parse_token_access(spec.child("access")),
        route=parse_route(spec.child("route")),
        object_metadata=parse_object_metadata(spec.child("objectMetadata")),
        model=parse_model(spec.child("model"), name),
        protocol=spec.choice("protocol", Protocol.OPEN_INFERENCE),
        transport=spec.choice("transport", Transport.HTTP),
        runtime=_parse_runtime(spec.child("runtime")),
        paths=_parse_paths(spec.child("paths")),
        health=_parse_health(spec.child("health")),
        contract=parse_contract(spec.child("contract")),
        smoke_tests=smoke_tests,
        smoke_digest=digest_of(smoke_tests.tests),
        rollout=parse_rollout(spec.child("rollout")),
        scheduling=_parse_scheduling(spec),
        pod_template=_parse_pod_template(spec),
        problems=(),
        written=NOTHING_WRITTEN,
    )
    spec.unknown()
    if is_whole:
        _check_together(parsed, spec)
    if problems:
        return replace(parsed, problems=tuple(problems))
    return replace(parsed, written=write_spec(parsed.uid, spec.written()))


def is_parsed_from(model: InferenceModel, body: Mapping[str, Any]) -> bool:
    """Whether a parsed model is still current for a newer body of the same resource."""
    metadata = body["metadata"]
    return (model.uid, model.generation, model.deleting) == (
        metadata["uid"],
        metadata.get("generation", 0),
        "deletionTimestamp" in metadata,
    )


def _parse_runtime(fields: Fields) -> RuntimeSpec:
    ports = fields.child("ports")
    spec = RuntimeSpec(
        image=fields.text("image"),
        command=fields.texts("command"),
        args=fields.texts("args"),
        env=fields.mappings("env"),
        resources=fields.mapping("resources") or None,
        ports=Ports(
            http=ports.integer("http", 8000, 1, 65535),
            grpc=ports.integer("grpc", 8001, 1, 65535),
        ),
        name=parse_object_name(fields, "name", "an InferenceRuntime"),
    )
    if spec.ports.http == spec.ports.grpc:
        ports.report(
            "grpc",
            f"{spec.ports.grpc} is invalid: ports.http and ports.grpc must differ; the defaults "
            "are 8000 and 8001. Write both ports",
        )
    ports.unknown()
    fields.unknown()
    return spec


def _parse_network_policy(spec: Fields) -> NetworkAccess | None:
    if not spec.has("networkPolicy"):
        return None
    fields = spec.child("networkPolicy")
    if not fields.has("from"):
        fields.require("from", "a list of peers; [] admits only the operator")
    access = NetworkAccess(fields.mappings("from"))
    fields.unknown()
    return access


def _parse_disruption_budget(fields: Fields) -> DisruptionBudget:
    budget = DisruptionBudget(fields.choice("policy", DisruptionPolicy.AUTO))
    fields.unknown()
    return budget


def _parse_paths(fields: Fields) -> PathOverrides:
    paths = PathOverrides(
        live=parse_path(fields, "live"),
        ready=parse_path(fields, "ready"),
        model_ready=parse_path(fields, "modelReady"),
        metadata=parse_path(fields, "metadata"),
    )
    fields.unknown()
    return paths


def _parse_health(fields: Fields) -> Health:
    health = Health(
        startup_timeout_seconds=fields.integer("startupTimeoutSeconds", 600, 1, 86400),
        period_seconds=fields.integer("periodSeconds", 5, 1, 300),
        timeout_seconds=fields.integer("timeoutSeconds", 2, 1, 60),
        failure_threshold=fields.integer("failureThreshold", 3, 1, 100),
        poll_interval_seconds=fields.integer("pollIntervalSeconds", 30, 1, 3600),
        termination_grace_period_seconds=fields.integer(
            "terminationGracePeriodSeconds", 30, 10, 3600
        ),
        readiness_target=fields.choice("readinessTarget", ReadinessTarget.MODEL),
    )
    fields.unknown()
    return health


def _parse_scheduling(spec: Fields) -> Scheduling:
    return Scheduling(
        node_selector=spec.mapping("nodeSelector"),
        tolerations=spec.mappings("tolerations"),
        affinity=spec.mapping("affinity"),
        priority_class_name=spec.text("priorityClassName"),
        service_account_name=spec.text("serviceAccountName"),
        image_pull_secrets=spec.mappings("imagePullSecrets"),
    )


def _parse_pod_template(spec: Fields) -> Mapping[str, Any]:
    template = spec.mapping("podTemplate")
    pod = template.get("spec")
    if pod is not None and not isinstance(pod, Mapping):
        spec.reject("podTemplate.spec", pod, "an object", "InvalidPodTemplate")
        return {}
    return template


def _check_together(parsed: InferenceModel, spec: Fields) -> None:
    if not parsed.runtime.image and not parsed.model.uri and not spec.problems:
        sentence = (
            "nothing to serve: set model.uri, such as pvc://CLAIM/PATH or s3://BUCKET/PATH, or "
            "set runtime.image if the image contains the model"
        )
        spec.report("", sentence)
    if parsed.transport is Transport.GRPC and parsed.paths.metadata:
        sentence = (
            "is an HTTP path and has no effect with transport GRPC; remove it or set transport to "
            "HTTP"
        )
        spec.report("paths.metadata", sentence)
    is_canary = parsed.rollout.strategy is Strategy.CANARY
    if (is_canary or spec.child("rollout").has("canary")) and not parsed.route.parent_refs:
        sentence = (
            "a canary splits requests at a gateway; set route.parentRefs, such as [{name: web, "
            "namespace: gateways}], or remove rollout.canary and set rollout.strategy to "
            "RollingUpdate"
        )
        spec.report("route", sentence)
    if parsed.protocol is Protocol.TENSORFLOW_SERVING:
        _check_tensorflow(parsed, spec)
    check_model_name(spec, parsed.model.name, str(parsed.protocol), parsed.runtime.image)
    check_requests(spec)
    if not parsed.protocol.has_tensors:
        check_without_tensors(spec)


def _check_tensorflow(parsed: InferenceModel, spec: Fields) -> None:
    """Report settings that the protocol does not support."""
    if parsed.transport is Transport.GRPC:
        sentence = (
            "protocol TensorFlowServing requires transport HTTP, because the operator uses its "
            "REST API; set transport to HTTP. Clients can still use the gRPC port"
        )
        spec.report("transport", sentence)
    version = parsed.model.version
    if version and not TENSORFLOW_VERSION.fullmatch(version):
        expected = "a whole number with protocol TensorFlowServing, such as '3'"
        spec.reject("model.version", version, expected)
    of_server = parsed.health.readiness_target is ReadinessTarget.SERVER
    if of_server and not parsed.paths.ready:
        sentence = (
            "TensorFlow Serving has no server readiness endpoint; set health.readinessTarget to "
            "Model, or set paths.ready to a path"
        )
        spec.report("health.readinessTarget", sentence)
