"""InferenceRuntimes on real pods: the chart's set, a model by format, an edited runtime."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from moorage_cli.__main__ import main as moorage
from support.chart_rights import PROGRAMS, ROOT
from support.inference import infer
from support.kubectl import KIND, Kubectl
from support.manifests import digits_files, inference_model
from support.runtime_set import CHART
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

RUNTIME = "inferenceruntime"
RELEASE = "runtimes"
# Of its own, so that no other test's model uses the runtimes.
FORMAT = "e2e-onnx"
EXAMPLE = ROOT / "examples" / "17-runtimes"


def install(kubectl: Kubectl, *values: str) -> None:
    """Install or upgrade the chart, usable in the namespace of the test."""
    label = "allowedNamespaces.matchLabels.kubernetes\\.io/metadata\\.name"
    words = ["upgrade", "--install", RELEASE, CHART, "--namespace", kubectl.namespace]
    words += ["--set", f"{label}={kubectl.namespace}", "--set", f"moorage.formats={{{FORMAT}}}"]
    words += [word for each in values for word in ("--set", each)]
    subprocess.run([PROGRAMS / "helm", *words], env=kubectl.env, check=True, timeout=120)


@pytest.fixture
def runtimes(kubectl: Kubectl) -> Iterator[None]:
    """The chart's set, with the bundled runtime as the default of the namespace."""
    install(kubectl, "moorage.default=true")
    yield
    words = ["uninstall", RELEASE, "--namespace", kubectl.namespace]
    subprocess.run([PROGRAMS / "helm", *words], env=kubectl.env, check=True, timeout=120)


def by_format(**spec: Any) -> dict[str, Any]:
    """The digits model, which finds its runtime by its format."""
    model = {"uri": "configmap://digits-files", "format": FORMAT}
    return inference_model("digits", model=model, health={"periodSeconds": 1}, **spec)


def pods(kubectl: Kubectl, name: str = "digits") -> dict[str, dict[str, Any]]:
    """The pods of a model by uid, without those that end."""
    found = kubectl.items("pods", f"moorage.dev/model={name}")
    return {
        each["metadata"]["uid"]: each
        for each in found
        if "deletionTimestamp" not in each["metadata"]
    }


def requests(pod: dict[str, Any]) -> dict[str, str]:
    return pod["spec"]["containers"][0]["resources"].get("requests", {})


def explained(kubectl: Kubectl, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The output of a command of the tool, whatever its exit status."""
    moorage([*words, "--kubeconfig", kubectl.env["KUBECONFIG"]])
    return capsys.readouterr().out


def test_a_model_names_its_format_and_follows_its_runtime_when_restarted(
    kubectl, runtimes, capsys
):
    kubectl.apply(digits_files(), by_format())
    kubectl.wait_condition("digits", "Ready", "True", "Serving")

    assert infer(kubectl, "digits") == 3
    assert kubectl.get(KIND, "digits")["status"]["runtime"]["name"] == "moorage"
    first = pods(kubectl)

    install(kubectl, "moorage.default=true", "moorage.spec.resources.requests.cpu=123m")
    pending = kubectl.wait_condition("digits", "RuntimeUpdatePending", "True", "RuntimeChanged")
    eventually(
        "the runtime counts the model that lags behind",
        lambda: kubectl.get(RUNTIME, "moorage")["status"].get("outdatedModels"),
        lambda count: count == 1,
        30,
    )

    assert "moorage" in pending["message"]
    assert set(pods(kubectl)) == set(first)
    assert "RuntimeChanged" in explained(kubectl, capsys, "why", "digits", "-n", kubectl.namespace)
    row = explained(kubectl, capsys, "runtimes", "moorage").splitlines()[-1].split()
    assert row[:4] == [kubectl.namespace, "digits", "True", "yes"]

    explained(kubectl, capsys, "restart", "digits", "-n", kubectl.namespace)
    (second,) = eventually(
        "a new pod with the requests of the edited runtime is the only one",
        lambda: list(pods(kubectl).values()),
        lambda found: len(found) == 1 and requests(found[0]) == {"cpu": "123m"},
        120,
    )
    kubectl.wait_condition("digits", "UpToDate", "True", "RolloutComplete")

    assert second["metadata"]["uid"] not in first
    assert infer(kubectl, "digits") == 3
    eventually(
        "the condition is gone",
        lambda: {item["type"] for item in kubectl.get(KIND, "digits")["status"]["conditions"]},
        lambda types: "RuntimeUpdatePending" not in types,
        30,
    )


def test_a_model_that_names_nothing_gets_the_default_of_its_namespace(kubectl, runtimes):
    install(kubectl, "moorage.default=true", "moorage.spec.resources.requests.cpu=45m")
    model = inference_model(
        "digits", model={"uri": "configmap://digits-files"}, health={"periodSeconds": 1}
    )
    kubectl.apply(digits_files(), model)

    kubectl.wait_condition("digits", "Ready", "True", "Serving")

    (pod,) = pods(kubectl).values()
    assert requests(pod) == {"cpu": "45m"}


def test_an_unknown_format_is_refused_with_the_known_ones(kubectl, runtimes, capsys):
    model = by_format()
    model["spec"]["model"]["format"] = "e2e-onxx"
    kubectl.apply(digits_files(), model)

    ready = kubectl.wait_condition("digits", "Ready", "False", "NoRuntimeForFormat")

    assert FORMAT in ready["message"]
    assert "NoRuntimeForFormat" in explained(
        kubectl, capsys, "why", "digits", "-n", kubectl.namespace
    )


def test_a_runtime_of_other_namespaces_is_refused(kubectl, runtimes):
    elsewhere = {"selector": {"matchLabels": {"moorage-e2e": "elsewhere"}}}
    spec = {"formats": [{"name": "e2e-elsewhere"}], "allowedNamespaces": elsewhere}
    kubectl.apply(
        {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceRuntime",
            "metadata": {"name": "elsewhere"},
            "spec": spec,
        },
        digits_files(),
        inference_model(
            "digits",
            model={"uri": "configmap://digits-files"},
            runtime={"name": "elsewhere"},
        ),
    )

    ready = kubectl.wait_condition("digits", "Ready", "False", "RuntimeNotAllowed")

    assert "'elsewhere'" in ready["message"]
    kubectl.run("delete", RUNTIME, "elsewhere")


def test_the_example_serves(kubectl):
    documents = [
        document
        for name in ("runtime.yaml", "models.yaml")
        for document in yaml.safe_load_all((EXAMPLE / name).read_text())
    ]
    model = ROOT / "examples" / "01-digits" / "model.onnx"
    kubectl.run("create", "configmap", "digits-onnx", f"--from-file={model}")
    kubectl.apply(*documents)

    for name in ("digits-by-format", "digits-by-name"):
        kubectl.wait_condition(name, "Ready", "True", "Serving")
        assert infer(kubectl, name) == 3
    (pod,) = pods(kubectl, "digits-by-name").values()
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"]["memory"] == "128Mi"
    assert resources["limits"]["memory"] == "256Mi"
    kubectl.run("delete", RUNTIME, "small-onnx")
