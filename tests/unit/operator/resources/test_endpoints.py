"""The paths of each protocol, the overrides of the spec, and the URLs in the status."""

from typing import Any

import pytest

from moorage_operator.api.v1alpha1 import Protocol, Transport
from moorage_operator.resources import endpoints
from moorage_operator.resources.endpoints import Paths
from support.operator_values import CONFIG, model

OTHER = {"runtime": {"image": "other:1"}}
NAMED = {"model": {"name": "Iris.v2", "version": "3_b"}}
WRITTEN = {
    "live": "/l", "ready": "/r", "modelReady": "/m", "metadata": "/d",
}  # fmt: skip
V2 = "/v2/models/Iris.v2/versions/3_b"
V1 = "/v1/models/Iris.v2/versions/3_b"
GRPS = "/grps/v1/health/ready"


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (
            Protocol.OPEN_INFERENCE,
            Paths("/v2/health/live", "/v2/health/ready", f"{V2}/ready", V2, "/v2", f"{V2}/ready"),
        ),
        (
            Protocol.TENSORFLOW_SERVING,
            Paths("", "", "", f"{V1}/metadata", "/v1/models/Iris.v2", f"{V1}/metadata"),
        ),
        (
            Protocol.GRPS,
            Paths(
                "/grps/v1/health/live",
                GRPS,
                "",
                "/grps/v1/metadata/model",
                "/grps/v1/metadata/server",
                GRPS,
            ),
        ),
        (
            Protocol.OPENAI,
            Paths("/health", "/health", "/v1/models", "/v1/models", "/v1/models", "/health"),
        ),
        (Protocol.AUTO, Paths("", "", "", "", "", "")),
        (Protocol.NONE, Paths("", "", "", "", "", "")),
    ],
)
def test_each_protocol_has_its_paths(protocol: Protocol, expected: Paths) -> None:
    assert endpoints.paths(model(**NAMED), protocol) == expected


def test_a_name_with_slashes_is_one_segment_of_the_paths_that_detect_a_protocol() -> None:
    of = model(protocol="Auto", model={"name": "o/m:8b"}, **OTHER)

    assert endpoints.paths(of, Protocol.OPEN_INFERENCE).metadata == "/v2/models/o%2Fm%3A8b"
    assert endpoints.paths(of, Protocol.TENSORFLOW_SERVING).server == "/v1/models/o%2Fm%3A8b"
    assert endpoints.infer_path(of, Protocol.TENSORFLOW_SERVING).endswith("o%2Fm%3A8b:predict")


@pytest.mark.parametrize(
    ("protocol", "server"),
    [(Protocol.OPEN_INFERENCE, "/v2"), (Protocol.GRPS, "/grps/v1/metadata/server")],
)
def test_paths_of_the_spec_replace_those_of_the_protocol(protocol: Protocol, server: str) -> None:
    of = model(paths=WRITTEN)

    assert endpoints.paths(of, protocol) == Paths("/l", "/r", "/m", "/d", server, "/m")


@pytest.mark.parametrize(
    ("spec", "kubelet"),
    [
        ({"paths": {"ready": "/r"}}, "/r"),
        ({"paths": {"ready": "/r", "modelReady": "/m"}}, "/m"),
        (
            {
                "paths": {"ready": "/r", "modelReady": "/m"},
                "health": {"readinessTarget": "Server"},
            },
            "/r",
        ),
        ({"paths": {"modelReady": "/m"}, "health": {"readinessTarget": "Server"}}, None),
    ],
)
def test_the_readiness_of_a_pod_is_that_of_the_model_or_else_of_the_server(
    spec: dict[str, Any], kubelet: str | None
) -> None:
    expected = kubelet or "/v2/health/ready"

    found = endpoints.paths(model(**spec), Protocol.OPEN_INFERENCE)

    assert found.kubelet_ready == expected


def test_the_list_of_models_of_openai_has_one_path_and_no_readiness() -> None:
    found = endpoints.paths(model(paths={"modelReady": "/v3/models"}), Protocol.OPENAI)

    assert found == Paths(
        "/health", "/health", "/v3/models", "/v1/models", "/v3/models", "/health"
    )


@pytest.mark.parametrize(
    ("spec", "own"),
    [
        ({"paths": {"modelReady": "/m"}}, True),
        ({"paths": {"ready": "/r"}}, False),
        ({"paths": {"modelReady": "/m"}, "transport": "GRPC"}, False),
        ({"paths": {"modelReady": "/m"}, "protocol": "OpenAI", **OTHER}, False),
    ],
)
def test_only_a_custom_path_of_tensors_over_http_proves_no_protocol(
    spec: dict[str, Any], own: bool
) -> None:
    assert endpoints.asks_own_path(model(**spec)) is own


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (Protocol.OPEN_INFERENCE, (Transport.HTTP, Transport.GRPC)),
        (Protocol.GRPS, (Transport.HTTP, Transport.GRPC)),
        (Protocol.TENSORFLOW_SERVING, (Transport.HTTP,)),
        (Protocol.OPENAI, (Transport.HTTP,)),
        (Protocol.NONE, (Transport.HTTP,)),
    ],
)
def test_only_two_protocols_have_grpc(protocol: Protocol, expected: tuple[Transport, ...]) -> None:
    assert endpoints.transports(protocol) == expected


TOKEN = {"access": {"tokenSecretName": "tokens"}}
TFS = {"protocol": "TensorFlowServing"}
METADATA = "/v1/models/digits/metadata"


@pytest.mark.parametrize(
    ("spec", "ready"),
    [
        (TFS, METADATA),
        ({**TFS, **TOKEN}, "/v2/models/digits/ready"),
        ({**TFS, **TOKEN, **OTHER}, METADATA),
        ({"protocol": "GRPS", **TOKEN}, GRPS),
        ({"protocol": "Auto", **TOKEN}, "/v2/models/digits/ready"),
        ({"protocol": "Auto"}, "/v2/models/digits/ready"),
        ({"protocol": "Auto", **OTHER}, ""),
    ],
)
def test_a_kubelet_probes_a_path_that_needs_no_token(spec: dict[str, Any], ready: str) -> None:
    assert endpoints.kubelet_paths(model(**spec), CONFIG).kubelet_ready == ready


@pytest.mark.parametrize(
    ("protocol", "spec", "path", "name"),
    [
        (Protocol.OPEN_INFERENCE, NAMED, f"{V2}/infer", ""),
        (Protocol.OPEN_INFERENCE, {}, "/v2/models/digits/infer", ""),
        (Protocol.TENSORFLOW_SERVING, NAMED, f"{V1}:predict", ""),
        (Protocol.GRPS, NAMED, "/grps/v1/infer/predict", "Iris.v2-3_b"),
        (Protocol.GRPS, {}, "/grps/v1/infer/predict", "digits"),
        (Protocol.GRPS, OTHER, "/grps/v1/infer/predict", ""),
        (Protocol.OPENAI, {}, "/v1/chat/completions", ""),
        (Protocol.OPENAI, {"paths": {"modelReady": "/models"}}, "/chat/completions", ""),
        (Protocol.OPENAI, {"paths": {"modelReady": "/v3/models"}}, "/v3/chat/completions", ""),
        (Protocol.OPENAI, {"paths": {"modelReady": "/v3/list"}}, "/v1/chat/completions", ""),
        (Protocol.NONE, {}, "", ""),
    ],
)
def test_an_inference_request_has_a_path_and_perhaps_a_name(
    protocol: Protocol, spec: dict[str, Any], path: str, name: str
) -> None:
    of = model(**spec)

    assert endpoints.infer_path(of, protocol) == path
    assert endpoints.infer_model(of, CONFIG, protocol) == name


HOST = "iris.ns.svc.cluster.local"


def listed(detected: Protocol | None = None, **spec: Any) -> list[tuple[str, str, str]]:
    found = endpoints.urls(model("iris", **spec), CONFIG, detected)
    return [(each["protocol"], each["transport"], each["url"]) for each in found]


@pytest.mark.parametrize(
    ("detected", "spec", "expected"),
    [
        (None, {"protocol": "Auto", **OTHER}, []),
        (
            Protocol.GRPS,
            {"protocol": "Auto", **OTHER, "runtime": {"image": "a", "ports": {"http": 90}}},
            [("GRPS", "HTTP", f"http://{HOST}:90/grps/v1/infer/predict")],
        ),
        (None, {"paths": {"modelReady": "/m"}, **OTHER}, []),
        (
            Protocol.OPEN_INFERENCE,
            {"paths": {"modelReady": "/m"}, **OTHER},
            [("OpenInference", "HTTP", f"http://{HOST}:8000/v2/models/iris/infer")],
        ),
        (
            Protocol.GRPS,
            OTHER,
            [("OpenInference", "HTTP", f"http://{HOST}:8000/v2/models/iris/infer")],
        ),
        (
            None,
            {"transport": "GRPC", "tls": {"secretName": "s"}, **OTHER},
            [("OpenInference", "GRPC", f"grpcs://{HOST}:8001")],
        ),
        (
            None,
            {"transport": "GRPC", **OTHER},
            [("OpenInference", "GRPC", f"grpc://{HOST}:8001")],
        ),
        (
            None,
            {"tls": {"secretName": "s"}, **OTHER},
            [("OpenInference", "HTTP", f"https://{HOST}:8000/v2/models/iris/infer")],
        ),
        (
            None,
            {"protocol": "GRPS", "model": {"version": "3"}, **OTHER},
            [("GRPS", "HTTP", f"http://{HOST}:8000/grps/v1/infer/predict?model=iris-3")],
        ),
        (
            Protocol.GRPS,
            {"protocol": "Auto", "model": {"name": "o/m", "version": "3"}, **OTHER},
            [("GRPS", "HTTP", f"http://{HOST}:8000/grps/v1/infer/predict?model=o%2Fm-3")],
        ),
    ],
)
def test_a_detected_protocol_has_a_url_and_an_unknown_one_has_none(
    detected: Protocol | None, spec: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    assert listed(detected, **spec) == expected


def test_the_bundled_runtime_has_the_url_of_each_protocol_once_and_that_of_the_spec_first() -> (
    None
):
    found = [(protocol, transport) for protocol, transport, _ in listed(protocol="GRPS")]

    assert found == [
        ("GRPS", "HTTP"),
        ("OpenInference", "HTTP"),
        ("OpenInference", "GRPC"),
        ("TensorFlowServing", "HTTP"),
        ("GRPS", "GRPC"),
    ]


def test_urls_outside_the_cluster_have_the_transports_of_their_servers() -> None:
    external = [
        (Transport.HTTP, "https://a"),
        (Transport.HTTP, "https://b"),
        (Transport.GRPC, "grpcs://c"),
    ]

    found = endpoints.urls(model("iris", **OTHER), CONFIG, None, external)

    assert [each["url"] for each in found] == [
        "https://a/v2/models/iris/infer",
        "https://b/v2/models/iris/infer",
    ]
    assert endpoints.urls(model("iris", **OTHER), CONFIG, None, []) == []
