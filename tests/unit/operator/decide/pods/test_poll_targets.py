"""What the operator asks the servers of a model."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide.pods.poll_targets import make_targets
from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.values.answers import ProbeResult
from moorage_operator.values.plan import Access, ProbeTarget, Way
from moorage_operator.values.smoke import SmokeOutcome, SmokeTask, SmokeVerdict
from support.operator_values import CONFIG, model, pending, pod

OTHER = {"runtime": {"image": "other:1"}}
NAMED: dict[str, Any] = {"model": {"name": "iris", "version": "3"}}
PORTS = {"ports": {"http": 80, "grpc": 81}}

OIP = Way(
    "OpenInference",
    "HTTP",
    8000,
    live_path="/v2/health/live",
    ready_path="/v2/health/ready",
    model_ready_path="/v2/models/digits/ready",
    metadata_path="/v2/models/digits",
    server_path="/v2",
    infer_path="/v2/models/digits/infer",
)
TFS = Way(
    "TensorFlowServing",
    "HTTP",
    8000,
    metadata_path="/v1/models/digits/metadata",
    server_path="/v1/models/digits",
    infer_path="/v1/models/digits:predict",
)
GRPS = Way(
    "GRPS",
    "HTTP",
    8000,
    live_path="/grps/v1/health/live",
    ready_path="/grps/v1/health/ready",
    metadata_path="/grps/v1/metadata/model",
    server_path="/grps/v1/metadata/server",
    infer_path="/grps/v1/infer/predict",
    infer_model="digits",
)
OPENAI = Way(
    "OpenAI",
    "HTTP",
    8000,
    live_path="/health",
    ready_path="/health",
    model_ready_path="/v1/models",
    metadata_path="/v1/models",
    server_path="/v1/models",
    infer_path="/v1/chat/completions",
)
OIP_GRPC = Way("OpenInference", "GRPC", 8001)
GRPS_GRPC = Way("GRPS", "GRPC", 8001, infer_model="digits")


def replica(of: InferenceModel, **facts: Any) -> Replica:
    """A replica whose server has not answered yet."""
    found = Replica(pod("p", of), current=True, serving=False, model_ready=False, admitted=False)
    return replace(found, **facts)


def target(of: InferenceModel, **facts: Any) -> ProbeTarget:
    (found,) = make_targets(of, [replica(of, **facts)], CONFIG)
    return found


def test_a_target_has_all_that_a_poll_needs() -> None:
    of = model(health={"timeoutSeconds": 4})

    assert target(of) == ProbeTarget(
        pod_uid="uid-p",
        container_id="containerd://first",
        address="10.0.0.1",
        way=OIP,
        model_name="digits",
        model_version="",
        timeout_seconds=4.0,
    )


def test_a_name_a_version_and_the_ports_of_the_spec_are_asked_for() -> None:
    found = target(model(**NAMED, runtime=PORTS))

    assert (found.model_name, found.model_version) == ("iris", "3")
    assert found.way.metadata_path == "/v2/models/iris/versions/3"
    assert found.way.port == 80
    assert [(each.transport, each.port) for each in found.others] == [
        ("HTTP", 80),
        ("HTTP", 80),
        ("HTTP", 80),
        ("GRPC", 81),
        ("GRPC", 81),
    ]
    assert found.others[1].infer_model == "iris-3"


@pytest.mark.parametrize(
    ("facts", "asked"),
    [
        ({}, True),
        ({"current": False}, False),
        ({"pod": pod("p", "r", ip="")}, False),
        ({"pod": pending("p", model(), ip="10.0.0.1")}, False),
    ],
)
def test_only_a_running_container_of_the_spec_with_an_address_is_asked(
    facts: dict[str, Any], asked: bool
) -> None:
    of = model()

    found = make_targets(of, [replica(of), replica(of, **facts)], CONFIG)

    assert len(found) == 1 + asked


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, [TFS, GRPS, OPENAI, OIP_GRPC, GRPS_GRPC]),
        ({"transport": "GRPC"}, [GRPS_GRPC, OIP, TFS, GRPS, OPENAI]),
        ({"protocol": "GRPS"}, [OIP, TFS, OPENAI, OIP_GRPC, GRPS_GRPC]),
        (
            {"protocol": "Auto"},
            [OIP, TFS, GRPS, OPENAI, OIP_GRPC, GRPS_GRPC],
        ),
        ({"protocol": "None", "paths": {"ready": "/r"}, **OTHER}, []),
    ],
)
def test_other_protocols_are_detected_first_over_the_transport_of_the_spec(
    spec: dict[str, Any], expected: list[Way]
) -> None:
    assert list(target(model(**spec)).others) == expected


@pytest.mark.parametrize(
    ("spec", "ready", "detects"),
    [
        ({}, True, False),
        ({}, False, True),
        ({"protocol": "Auto"}, True, True),
    ],
)
def test_a_server_that_answers_as_declared_needs_no_detection(
    spec: dict[str, Any], ready: bool, detects: bool
) -> None:
    assert bool(target(model(**spec), model_ready=ready).others) is detects


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"protocol": "GRPS", **OTHER}, True),
        ({"protocol": "Auto", **OTHER}, True),
        ({"protocol": "GRPS"}, False),
        (OTHER, False),
    ],
)
def test_another_server_of_grps_may_have_to_be_set_online(
    spec: dict[str, Any], expected: bool
) -> None:
    assert target(model(**spec)).bring_online is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"protocol": "GRPS"}, OIP),
        ({"protocol": "GRPS", "transport": "GRPC"}, OIP_GRPC),
        ({"protocol": "GRPS", **OTHER}, None),
        ({"protocol": "TensorFlowServing"}, None),
    ],
)
def test_the_bundled_runtime_explains_itself_if_grps_cannot(
    spec: dict[str, Any], expected: Way | None
) -> None:
    assert target(model(**spec)).explained_by == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        (
            {"tls": {"secretName": "web"}},
            Access("ns", tls_secret="web", server_name="digits.ns.svc"),
        ),
        (
            {"tls": {"secretName": "web", "serverName": "a.example"}},
            Access("ns", tls_secret="web", server_name="a.example"),
        ),
        (
            {"access": {"tokenSecretName": "tokens"}},
            Access("ns", token_secret="tokens"),
        ),
    ],
)
def test_a_secured_server_is_asked_with_the_secrets_of_the_spec(
    spec: dict[str, Any], expected: Access | None
) -> None:
    assert target(model(**spec)).access == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"paths": {"modelReady": "/m"}}, True),
        ({}, False),
    ],
)
def test_a_custom_path_is_marked(spec: dict[str, Any], expected: bool) -> None:
    found = target(model(**spec))

    assert found.own_path is expected
    assert found.way.model_ready_path == ("/m" if expected else OIP.model_ready_path)


TENSOR = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}
TESTED = model(smokeTests={"tests": [{"name": "t", "inputs": [TENSOR]}]})


@pytest.mark.parametrize(
    ("verdict", "done"),
    [(None, False), (SmokeVerdict.PASSED, True), (SmokeVerdict.OUTPUT_MISMATCH, False)],
)
def test_smoke_tests_run_until_they_have_passed(verdict: SmokeVerdict | None, done: bool) -> None:
    trial = SmokeOutcome(TESTED.smoke_digest, verdict) if verdict else None

    found = target(TESTED, trial=trial).smoke

    assert found == SmokeTask(TESTED.smoke_digest, TESTED.smoke_tests.tests, done=done)
    assert target(model(), trial=trial).smoke is None


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"model_ready": True}, True),
        ({"model_ready": True, "result": ProbeResult("uid-p", "containerd://first")}, False),
        ({}, False),
    ],
)
def test_the_status_vouches_for_a_ready_model_until_it_has_answered(
    facts: dict[str, Any], expected: bool
) -> None:
    assert target(model(), **facts).vouched is expected
