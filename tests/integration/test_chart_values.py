"""The chart as rendered by helm: images, pull Secrets, and the rights that depend on values."""

import shutil
from pathlib import Path

import pytest
import yaml

from support.chart import refusal, rendered, template
from support.chart_rights import CHART

pytestmark = pytest.mark.integration

DIGEST = "sha256:" + "0a" * 32


def operator_of(*words: str) -> tuple[str, dict[str, str], dict]:
    """The operator's image, environment and pod."""
    pod = rendered(*words)["Deployment", "moorage"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    env = {item["name"]: item.get("value", "") for item in container["env"]}
    return container["image"], env, pod


def rules_on(resource: str, *words: str) -> list[tuple[str, str]]:
    """The kind and name of the roles with the resource."""
    return [
        key
        for key, item in rendered(*words).items()
        for rule in item.get("rules") or []
        if resource in rule["resources"]
    ]


def test_without_a_registry_rendering_fails_with_instructions():
    said = refusal()

    assert "image.registry is empty, and no public registry has the images" in said
    assert "make images REGISTRY=registry.example.com/team PUSH=1" in said
    assert "-f build/images/values.yaml" in said


@pytest.mark.parametrize("registry", ["https://r.example", "r.example/team/", "r.example/Team"])
def test_an_invalid_registry_is_rejected_by_name(registry):
    assert "/image/registry" in refusal("--set", f"image.registry={registry}")


def test_images_have_the_registry_and_the_charts_version():
    image, env, _ = operator_of("--set", "image.registry=r.example:5000/team")

    assert image == "r.example:5000/team/moorage-operator:0.1.0"
    assert env["MOORAGE_RUNTIME_IMAGE"] == "r.example:5000/team/moorage-runtime:0.1.0"


def test_a_digest_takes_precedence_over_a_tag():
    image, env, _ = operator_of(
        *("--set", f"image.operator.digest={DIGEST},image.operator.tag=dev"),
        *("--set", f"image.runtime.digest={DIGEST}"),
    )

    assert image == f"localhost/moorage-operator@{DIGEST}"
    assert env["MOORAGE_RUNTIME_IMAGE"] == f"localhost/moorage-runtime@{DIGEST}"


def test_an_invalid_digest_is_rejected_by_name():
    said = refusal("--set", "image.registry=localhost,image.runtime.digest=sha256:abc")

    assert "/image/runtime/digest" in said


def test_pull_secrets_reach_the_operators_pod_and_its_setting():
    _, env, pod = operator_of("--set", "image.pullSecrets[0].name=a,image.pullSecrets[1].name=b")

    assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    assert env["MOORAGE_IMAGE_PULL_SECRETS"] == "a,b"


@pytest.mark.parametrize("scope", [(), ("--set", "watchNamespaces={team-a}")])
def test_the_operator_may_read_secrets_only_on_request(scope):
    hints = ("--set", "rbac.secretHints=true")

    assert rules_on("secrets", *scope) == []
    assert [name for _, name in rules_on("secrets", *scope, *hints)] == ["moorage-operator"]
    reads = ("--set", "rbac.readSecrets=true")
    assert [name for _, name in rules_on("secrets", *scope, *reads)] == ["moorage-operator"]
    assert operator_of(*scope, *reads)[1]["MOORAGE_SECRET_HINTS"] == "false"
    assert operator_of(*scope)[1]["MOORAGE_SECRET_HINTS"] == "false"
    assert operator_of(*scope, *hints)[1]["MOORAGE_SECRET_HINTS"] == "true"


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("configMap", {"configMap": {"name": "cas"}}),
        ("secret", {"secret": {"secretName": "cas"}}),
    ],
)
def test_the_cas_of_models_are_mounted_from_either_kind(kind, source):
    _, env, pod = operator_of("--set", f"modelCAs.{kind}=cas,modelCAs.key=bundle.pem")

    (volume,) = (each for each in pod["volumes"] if each["name"] == "model-cas")
    (field,) = source
    assert volume[field].pop("items") == [{"key": "bundle.pem", "path": "cas.pem"}]
    assert volume == {"name": "model-cas", **source}
    assert env["MOORAGE_CA_FILE"] == "/etc/moorage/model-cas/cas.pem"


def test_the_cas_of_models_have_one_source():
    assert "/modelCAs" in refusal("--set", "modelCAs.configMap=a,modelCAs.secret=b")


def test_a_service_monitor_has_a_service_to_find():
    monitor = "metrics.serviceMonitor.enabled=true"

    assert "/metrics/service" in refusal(
        "--set", f"image.registry=localhost,{monitor},metrics.service=false"
    )
    assert ("ServiceMonitor", "moorage") in rendered("--set", monitor)
    assert ("Service", "moorage-metrics") not in rendered("--set", "metrics.service=false")


def notes_of(folder: Path, *words: str) -> str:
    """What `helm install` prints, which `helm template` does not, of a copy of the chart."""
    chart = shutil.copytree(CHART, folder / "chart")
    notes = chart / "templates" / "NOTES.txt"
    notes.rename(chart / "files" / "NOTES.txt")
    notes.with_name("notes.yaml").write_text(
        'notes: {{ tpl (.Files.Get "files/NOTES.txt") . | toJson }}'
    )
    done = template(
        *("--set", "image.registry=localhost", *words, "-s", "templates/notes.yaml"), chart=chart
    )
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["notes"]


def test_the_notes_serve_the_first_model_in_the_current_namespace(tmp_path: Path):
    said = notes_of(tmp_path)

    assert "serves InferenceModels in all namespaces." in said
    assert "apply -f examples/01-digits/inferencemodel.yaml\n" in said
    assert "label selector" not in said


def test_the_notes_serve_the_first_model_where_the_operator_watches(tmp_path: Path):
    said = notes_of(tmp_path, "--set", "watchNamespaces={team-a,team-b},watchLabelSelector=a=b")

    commands = [line for line in said.splitlines() if line.startswith("  kubectl ")]
    assert len(commands) == 3
    assert all(line.endswith(" --namespace team-a") for line in commands)
    assert "ignores models that do not match the label selector a=b." in said
