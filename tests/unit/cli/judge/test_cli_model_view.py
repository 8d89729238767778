"""What the CLI reads of InferenceModels and InferenceRuntimes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_cli.judge.model_view import (
    CanaryView,
    Condition,
    FailureView,
    ModelView,
    ReplicaView,
    RolloutView,
    RuntimeView,
    StepView,
    moment,
    runtime_view,
    view,
)

TIMES = [f"2026-01-01T0{hour}:00:00Z" for hour in range(6)]
HOURS = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(6)]
URLS = ["https://iris-5d8f.models.svc:8000/v2", "grpcs://iris-5d8f.models.svc:9000"]

RESOURCE: dict[str, Any] = {
    "metadata": {
        "namespace": "models",
        "name": "iris",
        "generation": 3,
        "creationTimestamp": TIMES[0],
    },
    "spec": {
        "model": {"name": "Iris.v2"},
        "tls": {"secretName": "iris-tls", "serverName": "iris.example.com"},
        "access": {"tokenSecretName": "iris-tokens"},
        "health": {"periodSeconds": 2, "failureThreshold": 4},
        "rollout": {
            "strategy": "Canary",
            "canary": {"steps": [{"weight": 10, "pauseSeconds": 300}, {"weight": 50}]},
        },
    },
    "status": {
        "observedGeneration": 2,
        "replicaSummary": "1/2",
        "versionSummary": "1,2",
        "model": {"name": "iris-served"},
        "protocol": {"declared": "Auto", "detected": "OpenInference"},
        "endpoints": [{"url": each} for each in URLS],
        "url": "https://iris.example.com",
        "selector": "moorage.dev/model=iris",
        "runtime": {"name": "triton"},
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "ModelLoading",
                "message": "it loads",
                "observedGeneration": 2,
                "lastTransitionTime": TIMES[1],
            }
        ],
        "revisions": {
            "current": "r4",
            "candidate": "r4",
            "lastGood": "r3",
            "rejected": {"revision": "r2"},
            "retiring": {"revision": "r1"},
            "unproven": ["r0", "r2"],
            "canary": {"revision": "r4", "step": 1, "weight": 10, "since": TIMES[2]},
        },
        "timings": {
            "revision": "r3",
            "scheduled": 0,
            "artifact": 1,
            "started": 2,
            "modelReady": 3,
            "total": 6,
        },
        "replicaStatuses": [
            {
                "pod": "iris-a",
                "revision": "r4",
                "ready": True,
                "modelReady": True,
                "restarts": 5,
                "reason": "OOMKilled",
                "message": "too little memory",
                "since": TIMES[3],
            }
        ],
        "omittedReplicas": 7,
        "lastFailure": {
            "reason": "OOMKilled",
            "pod": "iris-a",
            "container": "runtime",
            "exitCode": 137,
            "message": "killed",
            "time": TIMES[4],
            "resolvedTime": TIMES[5],
        },
    },
}


def test_every_field_of_a_model_is_read() -> None:
    loading = Condition("Ready", "False", "ModelLoading", "it loads", 2, HOURS[1])
    replica = ReplicaView(
        "iris-a",
        "r4",
        ready=True,
        model_ready=True,
        restarts=5,
        reason="OOMKilled",
        message="too little memory",
        since=HOURS[3],
    )
    failure = FailureView("OOMKilled", "iris-a", "runtime", 137, "killed", HOURS[4], resolved=True)
    rollout = RolloutView(
        strategy="Canary",
        steps=(StepView(10, 300), StepView(50, None)),
        current="r4",
        candidate="r4",
        last_good="r3",
        rejected="r2",
        retiring="r1",
        unproven=frozenset({"r0", "r2"}),
        canary=CanaryView("r4", 1, 10, HOURS[2]),
        timed="r3",
        phases={"scheduled": 0, "artifact": 1, "started": 2, "modelReady": 3, "total": 6},
    )

    assert view(RESOURCE) == ModelView(
        namespace="models",
        name="iris",
        generation=3,
        observed_generation=2,
        created=HOURS[0],
        replica_summary="1/2",
        served_name="iris-served",
        versions="1,2",
        declared_protocol="Auto",
        protocol="OpenInference",
        url=URLS[0],
        urls=tuple(URLS),
        external_url="https://iris.example.com",
        selector="moorage.dev/model=iris",
        last_good="r3",
        runtime="triton",
        tls_secret="iris-tls",
        server_name="iris.example.com",
        token_secret="iris-tokens",
        conditions={"Ready": loading},
        rollout=rollout,
        replicas=(replica,),
        omitted_replicas=7,
        last_failure=failure,
        patience_seconds=8,
    )


def test_an_address_that_two_protocols_share_is_read_once() -> None:
    endpoints = [{"url": url} for url in (*URLS, URLS[0])]

    assert view({**RESOURCE, "status": {"endpoints": endpoints}}).urls == tuple(URLS)


def test_a_model_without_a_status_has_defaults() -> None:
    found = view({"metadata": {"name": "iris", "namespace": "models", "generation": 1}})

    assert found.ready == Condition(
        "Ready", "Unknown", "NotSeenYet", "the operator has not written a status yet", 0, None
    )
    assert not found.is_current
    assert (found.url, found.urls) == ("", ())
    assert found.server_name == "iris.models.svc"
    assert found.rollout == RolloutView(
        strategy="RollingUpdate",
        steps=(),
        current="",
        candidate="",
        last_good="",
        rejected="",
        retiring="",
        unproven=frozenset(),
        canary=None,
        timed="",
        phases={},
    )
    assert found.last_failure is None
    assert found.patience_seconds == 15


def test_the_name_in_requests_is_that_of_the_server_then_that_of_the_spec() -> None:
    spec, status = RESOURCE["spec"], RESOURCE["status"]

    assert view(RESOURCE).served_name == "iris-served"
    assert view({**RESOURCE, "status": {**status, "model": {}}}).served_name == "Iris.v2"
    assert view({**RESOURCE, "spec": {**spec, "model": {}}, "status": {}}).served_name == "iris"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        # the Service of a model with a long name has a shortened one
        (URLS[0], "iris-5d8f.models.svc"),
        ("http://iris-5d8f.models.svc:8000/a://b", "iris-5d8f.models.svc"),
        ("iris-5d8f", "iris.models.svc"),
        ("", "iris.models.svc"),
    ],
)
def test_a_certificate_is_for_the_service_unless_the_spec_names_a_host(
    url: str, name: str
) -> None:
    status = {"endpoints": [{"url": url}, {"url": URLS[1]}]}

    found = view({**RESOURCE, "spec": {"tls": {"secretName": "tls"}}, "status": status})

    assert found.server_name == name


@pytest.mark.parametrize(
    ("ready", "model_ready", "serves"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_a_replica_serves_if_it_gets_requests_and_its_model_is_ready(
    ready: bool, model_ready: bool, serves: bool
) -> None:
    status = {"replicaStatuses": [{"pod": "a", "ready": ready, "modelReady": model_ready}]}

    (found,) = view({"status": status}).replicas

    assert found.serves is serves


@pytest.mark.parametrize("wrong", [None, "", "7", 7.5, [], {}, [None], {"a": 1}])
def test_a_field_of_an_unexpected_type_counts_as_absent(wrong: Any) -> None:
    damaged = {
        "metadata": {"name": "iris", "generation": wrong, "creationTimestamp": wrong},
        "spec": {"rollout": {"canary": {"steps": [{"weight": wrong, "pauseSeconds": wrong}]}}},
        "status": {
            "endpoints": wrong,
            "conditions": wrong,
            "replicaStatuses": [{"pod": "a", "ready": wrong, "restarts": wrong, "since": wrong}],
            "lastFailure": {"reason": "OOMKilled", "exitCode": wrong, "time": wrong},
        },
    }

    found = view(damaged)

    assert (found.generation, found.created) == (0, None)
    assert found.rollout.steps == (StepView(0, None),)
    assert (found.url, found.conditions) == ("", {})
    assert found.replicas == (
        ReplicaView("a", "", ready=False, model_ready=False, restarts=0, reason="", message=""),
    )
    assert found.last_failure == FailureView("OOMKilled", "", "", None, "", None, resolved=False)


def test_every_field_of_a_runtime_is_read() -> None:
    accepted = {"type": "Accepted", "status": "True", "reason": "Valid", "message": ""}
    held = {"type": "UpdateHeld", "status": "True", "reason": "AwaitingModel", "message": "iris"}

    found = runtime_view(
        {
            "metadata": {"name": "triton"},
            "spec": {
                "default": True,
                "image": "triton:1",
                "protocol": "OpenInference",
                "formats": [{"name": "onnx"}, {"name": "plan"}],
                "updatePolicy": "Automatic",
            },
            "status": {"models": 3, "outdatedModels": 1, "conditions": [accepted, held]},
        }
    )

    assert found == RuntimeView(
        name="triton",
        is_default=True,
        image="triton:1",
        protocol="OpenInference",
        formats=("onnx", "plan"),
        update_policy="Automatic",
        models=3,
        outdated_models=1,
        problem="AwaitingModel: iris",
    )


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert moment("2026-01-01T01:00:00") == HOURS[1]
