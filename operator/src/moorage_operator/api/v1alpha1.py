"""InferenceModel v1alpha1 as frozen values: `parse` fills the defaults and lists the problems.

The CRD (`crds/inferencemodels.yaml`) is the same API in OpenAPI; `tests/contract` holds the two
together. Kubernetes' own pieces (resources, tolerations, affinity, the pod template) stay
mappings: the API server judges them when the Deployment is applied.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, cast

from .canary import Canary, CanaryStep, ParentRef
from .contract import Contract, ContractPolicy, DeclaredTensor, parse_contract
from .fields import Fields, Problem
from .model_spec import Credentials, Download, ModelSpec, parse_model
from .model_uri import ModelUri, Scheme
from .rollout import BlueGreen, OnFailure, Rollout, Strategy, parse_rollout
from .scaling import PrometheusQuery, Scaling, ScalingMetric, parse_scaling
from .smoke_tests import SmokeTest, SmokeTestPolicy, digest_of, parse_smoke_tests

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
    "Download",
    "Endpoints",
    "Health",
    "InferenceModel",
    "ModelSpec",
    "ModelUri",
    "NetworkAccess",
    "OnFailure",
    "ParentRef",
    "Ports",
    "Problem",
    "PrometheusQuery",
    "Protocol",
    "ReadinessTarget",
    "Rollout",
    "RuntimeSpec",
    "Scaling",
    "ScalingMetric",
    "Scheduling",
    "Scheme",
    "SmokeTest",
    "SmokeTestPolicy",
    "Strategy",
    "Transport",
    "parse",
]

GROUP = "moorage.dev"

# What a pod may take beside loading its model, to be scheduled and to pull its image: a guess.
PULL_ALLOWANCE_SECONDS = 300
# What a model of a hundred gigabytes may take to be fetched at 55 MB/s: a guess as well.
FETCH_ALLOWANCE_SECONDS = 1800

# An annotation with any text: another text asks for one more rollout of the same spec.
ROLLOUT_REQUEST = f"{GROUP}/rollout-request"

# An annotation that ends a canary's pause: a revision and a step of it, or a revision for all.
CANARY_APPROVED = f"{GROUP}/canary-approved"

# What a kubelet can ask for: an absolute path of printable characters, with valid escapes.
PROBE_PATH = re.compile(r'/([!-"$&-~]|%[0-9A-Fa-f]{2})*')
# TensorFlow Serving knows a model's versions by number.
TENSORFLOW_VERSION = re.compile(r"[0-9]+")
PROBE_PATH_EXPECTED = "a path that begins with '/', without spaces, like /v2/health/ready"


class Protocol(StrEnum):
    """Protocols that the operator can ask a model by; `Auto` finds out which."""

    AUTO = "Auto"
    OPEN_INFERENCE = "OpenInference"
    TENSORFLOW_SERVING = "TensorFlowServing"
    GRPS = "GRPS"


class Transport(StrEnum):
    """How the operator and the probes ask."""

    HTTP = "HTTP"
    GRPC = "GRPC"


class DisruptionBudget(StrEnum):
    """Whether a model of several replicas gets a PodDisruptionBudget."""

    AUTO = "Auto"
    NONE = "None"


class ReadinessTarget(StrEnum):
    """Whose readiness makes a pod ready: the model's, or that of the server as a whole."""

    MODEL = "Model"
    SERVER = "Server"


@dataclass(frozen=True, slots=True)
class Ports:
    """`spec.runtime.ports`: what the container listens on and the Service offers."""

    http: int = 8000
    grpc: int = 8001


@dataclass(frozen=True, slots=True)
class RuntimeSpec:
    """`spec.runtime`; an empty `image` is the bundled runtime."""

    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] | None = None
    ports: Ports = Ports()


@dataclass(frozen=True, slots=True)
class Endpoints:
    """`spec.endpoints`: paths that replace the protocol's own; empty: the protocol's."""

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
    """`spec.networkPolicy`: the peers, as in a NetworkPolicy, that may reach the model's ports."""

    from_: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Fields of the spec that are fields of a pod, as they were written."""

    node_selector: Mapping[str, Any]
    tolerations: tuple[Mapping[str, Any], ...]
    affinity: Mapping[str, Any]
    priority_class_name: str
    service_account_name: str
    image_pull_secrets: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class InferenceModel:
    """One resource with every default filled in; `problems` make it unacceptable.

    `rollout_request` and `canary_approved` are the annotations of these names, empty where they
    are absent; `smoke_digest` tells the smoke tests from edited ones.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    rollout_request: str
    replicas: int
    suspend: bool
    scaling: Scaling
    disruption_budget: DisruptionBudget
    network_policy: NetworkAccess | None
    model: ModelSpec
    protocol: Protocol
    transport: Transport
    runtime: RuntimeSpec
    endpoints: Endpoints
    health: Health
    contract: Contract
    smoke_tests: tuple[SmokeTest, ...]
    smoke_test_policy: SmokeTestPolicy
    smoke_digest: str
    rollout: Rollout
    scheduling: Scheduling
    pod_template: Mapping[str, Any]
    problems: tuple[Problem, ...]
    canary_approved: str = ""

    @property
    def progress_deadline_seconds(self) -> int:
        """How long a rollout may stand still; with 600 s to start, by default 900."""
        written = self.rollout.progress_deadline_seconds
        uri = self.model.uri
        fetching = FETCH_ALLOWANCE_SECONDS if uri and uri.scheme.is_fetched else 0
        starting = self.health.startup_timeout_seconds + PULL_ALLOWANCE_SECONDS
        return written or starting + fetching

    @property
    def desired_replicas(self) -> int:
        """Replicas that should run now."""
        return 0 if self.suspend else self.scaling.within(self.replicas)

    @property
    def enforces(self) -> bool:
        """Whether a replica has to pass more than its model's readiness to get traffic."""
        return self.contract.is_enforced or self.enforces_smoke_tests

    @property
    def enforces_smoke_tests(self) -> bool:
        """Whether a replica that fails a smoke test gets no traffic."""
        return bool(self.smoke_tests) and self.smoke_test_policy is SmokeTestPolicy.ENFORCE


def parse(body: Mapping[str, Any]) -> InferenceModel:
    """The resource as a value; never raises for what a user wrote."""
    metadata = cast("Mapping[str, Any]", body["metadata"])
    annotations = cast("Mapping[str, Any]", metadata.get("annotations") or {})
    name = str(metadata["name"])
    problems: list[Problem] = []
    spec = Fields(body.get("spec"), "spec", problems)
    smoke_tests = parse_smoke_tests(spec, "smokeTests")
    parsed = InferenceModel(
        namespace=str(metadata["namespace"]),
        name=name,
        uid=str(metadata["uid"]),
        generation=int(metadata.get("generation", 0)),
        deleting="deletionTimestamp" in metadata,
        rollout_request=str(annotations.get(ROLLOUT_REQUEST, "")),
        canary_approved=str(annotations.get(CANARY_APPROVED, "")),
        replicas=spec.integer("replicas", 1, 0, 2**31 - 1),
        suspend=spec.flag("suspend", default=False),
        scaling=parse_scaling(spec.child("scaling")),
        disruption_budget=spec.choice("disruptionBudget", DisruptionBudget.AUTO),
        network_policy=_parse_network_policy(spec),
        model=parse_model(spec.child("model"), name),
        protocol=spec.choice("protocol", Protocol.OPEN_INFERENCE),
        transport=spec.choice("transport", Transport.HTTP),
        runtime=_parse_runtime(spec.child("runtime")),
        endpoints=_parse_endpoints(spec.child("endpoints")),
        health=_parse_health(spec.child("health")),
        contract=parse_contract(spec.child("contract")),
        smoke_tests=smoke_tests,
        smoke_test_policy=spec.choice("smokeTestPolicy", SmokeTestPolicy.WARN),
        smoke_digest=digest_of(smoke_tests),
        rollout=parse_rollout(spec.child("rollout")),
        scheduling=_parse_scheduling(spec),
        pod_template=_parse_pod_template(spec),
        problems=(),
    )
    spec.unknown()
    _check_together(parsed, spec)
    return replace(parsed, problems=tuple(problems))


def is_parsed_from(model: InferenceModel, body: Mapping[str, Any]) -> bool:
    """Whether a version of the model's resource has the same spec, annotations and life."""
    metadata = body["metadata"]
    marks = metadata.get("annotations") or {}
    told = metadata["uid"], metadata.get("generation", 0), "deletionTimestamp" in metadata
    asked = marks.get(ROLLOUT_REQUEST, ""), marks.get(CANARY_APPROVED, "")
    known = model.uid, model.generation, model.deleting
    return (known, (model.rollout_request, model.canary_approved)) == (told, asked)


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
    )
    if spec.ports.http == spec.ports.grpc:
        ports.reject("grpc", spec.ports.grpc, "another port than ports.http")
    ports.unknown()
    fields.unknown()
    return spec


def _parse_network_policy(spec: Fields) -> NetworkAccess | None:
    if spec.raw("networkPolicy") is None:
        return None
    fields = spec.child("networkPolicy")
    if fields.raw("from") is None:
        fields.reject("from", None, "a list of peers; [] lets the operator alone in")
    access = NetworkAccess(fields.mappings("from"))
    fields.unknown()
    return access


def _parse_endpoints(fields: Fields) -> Endpoints:
    endpoints = Endpoints(
        live=_parse_path(fields, "live"),
        ready=_parse_path(fields, "ready"),
        model_ready=_parse_path(fields, "modelReady"),
        metadata=_parse_path(fields, "metadata"),
    )
    fields.unknown()
    return endpoints


def _parse_path(fields: Fields, name: str) -> str:
    path = fields.text(name)
    if not path or PROBE_PATH.fullmatch(path):
        return path
    fields.reject(name, path, PROBE_PATH_EXPECTED)
    return ""


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
            "set model.uri, such as pvc://CLAIM/PATH or s3://BUCKET/PATH, "
            "or runtime.image when the image holds the model"
        )
        spec.problems.append(Problem(spec.path, sentence))
    if parsed.transport is Transport.GRPC and parsed.endpoints.metadata:
        sentence = "an HTTP path has no effect with transport GRPC; remove it"
        spec.problems.append(Problem(spec.at("endpoints.metadata"), sentence))
    if parsed.protocol is Protocol.TENSORFLOW_SERVING:
        _check_tensorflow(parsed, spec)


def _check_tensorflow(parsed: InferenceModel, spec: Fields) -> None:
    """What the protocol does not have, with what to write instead."""
    if parsed.transport is Transport.GRPC:
        expected = "HTTP with protocol TensorFlowServing, which is asked over its REST API"
        spec.reject("transport", str(parsed.transport), expected)
    version = parsed.model.version
    if version and not TENSORFLOW_VERSION.fullmatch(version):
        expected = "a whole number with protocol TensorFlowServing, such as '3'"
        spec.reject("model.version", version, expected)
    of_server = parsed.health.readiness_target is ReadinessTarget.SERVER
    if of_server and not parsed.endpoints.ready:
        expected = "Model with protocol TensorFlowServing, whose servers have no readiness; or a "
        expected += "path in endpoints.ready"
        spec.reject("health.readinessTarget", str(parsed.health.readiness_target), expected)
