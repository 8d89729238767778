"""What the operator plans for the bundled runtime is what the runtime understands."""

import re
from pathlib import Path

import pytest

from moorage_operator.resources import probes
from moorage_operator.resources.pod_template import make_pod_template
from moorage_runtime import settings
from moorage_runtime.frontends.grpc import health as health_grpc
from support.operator_values import CONFIG, model

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "runtime" / "Dockerfile").read_text()


def container(**spec):
    return make_pod_template(model(**spec), CONFIG)["spec"]["containers"][0]


def environment(**spec) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container(**spec)["env"]}


@pytest.mark.parametrize(
    ("uri", "folder"),
    [("configmap://files", "/mnt/models"), ("pvc://weights/a/b", "/mnt/models/a/b")],
)
def test_the_runtime_reads_the_planned_environment(uri, folder):
    ports = {"http": 8080, "grpc": 9000}

    read = settings.parse([], environment(model={"uri": uri}, runtime={"ports": ports}))

    assert read.model_repository == Path(folder)
    assert read.model_name == "digits"
    assert (read.http_port, read.grpc_port) == (8080, 9000)


def test_every_planned_variable_is_a_setting_of_the_runtime():
    known = {setting.variable for setting in settings.SETTINGS}

    assert set(environment(model={"uri": "pvc://a/b", "trusted": True})) <= known


@pytest.mark.parametrize("image", ["", "registry.example/moorage-runtime:tables"])
@pytest.mark.parametrize("trusted", [True, False])
def test_the_runtime_loads_pickles_of_trusted_models_alone(image, trusted):
    spec = {"model": {"uri": "pvc://a/b", "trusted": trusted}, "runtime": {"image": image}}

    read = settings.parse([], environment(**spec))

    assert read.allow_pickle is trusted


def test_a_variable_of_the_spec_takes_precedence_over_a_trusted_model():
    refused = [{"name": "MOORAGE_ALLOW_PICKLE", "value": "false"}]
    spec = {"model": {"uri": "pvc://a/b", "trusted": True}, "runtime": {"env": refused}}

    assert not settings.parse([], environment(**spec)).allow_pickle


def test_default_ports_are_the_same():
    plain = settings.parse([], {})

    assert (plain.http_port, plain.grpc_port) == (
        model().runtime.ports.http,
        model().runtime.ports.grpc,
    )
    assert f"EXPOSE {plain.http_port} {plain.grpc_port}" in DOCKERFILE


def test_health_services_have_the_same_names():
    assert probes.LIVENESS_SERVICE == health_grpc._LIVENESS
    assert probes.READINESS_SERVICE in health_grpc._READINESS
    assert probes.MODEL_SERVICE_PREFIX == health_grpc._MODEL_PREFIX


def test_the_image_runs_as_the_pod_demands():
    user = re.search(r"^USER (\d+)", DOCKERFILE, re.MULTILINE)

    # runAsNonRoot is judged by the kubelet, which needs a number in the image.
    assert user
    assert int(user[1]) > 0
