"""The command-line tool as a process, against a real API server and the operator."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from moorage_cli.manifests.documents import dump
from moorage_cli.manifests.lint import lint_text, schemas
from support.chart_rights import PROGRAMS
from support.cli_manifests import REFUSED, manifest
from support.iris import start
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)

pytestmark = pytest.mark.integration

MOORAGE = Path(sys.executable).parent / "moorage"
SCHEMAS = schemas()
TENSOR = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}


def command(api: Api, name: str, *arguments: str) -> list[str]:
    return [str(MOORAGE), name, *arguments, "--kubeconfig", str(api.kubeconfig)]


def moorage(api: Api, name: str, *arguments: str) -> tuple[int, str, str]:
    """The exit status and both outputs of the tool for the test's namespace."""
    done = subprocess.run(
        [*command(api, name, *arguments), "-n", api.namespace],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_serving_model_is_printed_in_every_format(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    start(api, kubelet, {"http": server.port})
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))
    eventually("UpToDate", lambda: api.condition("iris", "UpToDate")[0] == "True")

    code, out, err = moorage(api, "status")
    assert (code, err) == (0, "")
    head, row = [line.split() for line in out.splitlines()]
    cells = dict(zip(head, row, strict=True))
    assert cells["NAME"] == cells["MODEL"] == "iris"
    assert (cells["READY"], cells["PROGRESS"], cells["REPLICAS"]) == ("True", "4/4", "1/1")
    assert (cells["PROTOCOL"], cells["REASON"]) == ("OpenInference", "Serving")

    code, out, _ = moorage(api, "status", "iris", "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert document["ready"] is document["current"] is True
    assert [item["serves"] for item in document["replicaStatuses"]] == [True]

    code, out, _ = moorage(api, "why", "iris")
    assert code == 0
    assert "No problems found." in out


def test_why_prints_the_cause_the_pod_and_the_fix(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    api.apply(model("iris"))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.wait(pod, "ImagePullBackOff", 'Back-off pulling image "example/server:1"')
    eventually("the reason", lambda: api.condition("iris")[1] == "ImagePullBackOff")
    eventually("the model's event", lambda: events_about(api, "iris"))

    code, out, _ = moorage(api, "why", "iris")

    assert code == 1
    assert "is not ready: ImagePullBackOff" in out.splitlines()[0]
    assert "imagePullSecrets" in out
    assert pod["metadata"]["name"] in out
    assert "InferenceModel/iris" in out.split("Events")[1]
    assert moorage(api, "status", "iris")[0] == moorage(api, "status")[0] == 1


def events_about(api: Api, name: str) -> list[dict[str, Any]]:
    return [item for item in api.list("Event") if item["regarding"]["name"] == name]


def test_the_watch_shows_the_progress_to_ready(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    server.ready = False
    start(api, kubelet, {"http": server.port})
    watching = subprocess.Popen(
        [*command(api, "status", "iris", "--watch", "-o", "json"), "-n", api.namespace],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout
        read_until(watching.stdout, '"ready": false')
        server.ready = True
        read_until(watching.stdout, '"ready": true')
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=20)
    assert watching.returncode == 130


def read_until(stream: Any, text: str) -> None:
    """Read lines until one has the text or the test times out."""
    for line in stream:
        if text in line:
            return
    raise AssertionError(f"the output ended without {text}")


def test_a_missing_model_is_reported_with_the_api_servers_message(
    api: Api, tmp_path: Path
) -> None:
    code, out, err = moorage(api, "status", "rose")
    assert (code, out) == (1, "")
    assert 'inferencemodels.moorage.dev "rose" not found' in err

    assert moorage(api, "status") == (0, "No InferenceModels found.\n", "")
    assert "'elsewhere'" in moorage(api, "why", "rose", "--context", "elsewhere")[2]

    config = yaml.safe_load(api.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    dead = tmp_path / "kubeconfig"
    dead.write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [MOORAGE, "status", "--kubeconfig", dead], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the API server does not answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_namespace_that_does_not_exist_is_reported(api: Api) -> None:
    for words in (["status"], ["status", "--watch"], ["why", "rose"], ["top"]):
        done = subprocess.run(
            [*command(api, *words), "-n", "no-such-namespace"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

        sentence = "namespace no-such-namespace does not exist: set --namespace to one that exists"
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"moorage: {sentence}\n"


def test_infer_reports_a_missing_pod_and_an_unreachable_kubelet(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    tmp_path: Path,
) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"inputs": [TENSOR]}))
    start(api, kubelet, {"http": server.port})
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))

    code, out, err = moorage(api, "infer", "iris", "-f", str(request))

    # A bare control plane has no kubelet, which the API server reports.
    assert (code, out) == (1, "")
    assert err.startswith("moorage: pod iris-")
    assert "Traceback" not in err


def test_top_lists_replicas_without_the_metrics_api(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    pod = start(api, kubelet, {"http": server.port})
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))

    code, out, err = moorage(api, "top", "-o", "json")

    document = json.loads(out)
    assert (code, err) == (0, "")
    assert [item["pod"] for item in document["replicas"]] == [pod["metadata"]["name"]]
    assert any("metrics.k8s.io" in note for note in document["notes"])


@pytest.mark.parametrize(("spec", "path", "sentence"), REFUSED)
def test_lint_rejects_what_the_api_server_rejects(
    api: Api, spec: dict[str, Any], path: str, sentence: str
) -> None:
    with pytest.raises(ApiException) as refused:
        api.apply(manifest(spec))
    found = lint_text("file", dump(manifest(spec)), SCHEMAS)

    assert refused.value.status in (400, 422, 500)
    assert path in [finding.path for finding in found]
    assert sentence in " ".join(finding.message for finding in found)


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"uri": "pvc://models"}, "replicas": None},
        {"model": {"uri": "pvc://models"}, "health": None},
        {"runtime": {"image": "a"}, "model": {"version": None}},
        {"runtime": {"image": "a", "resources": {"limits": {"memory": 1}}}},
        {"runtime": {"image": "a", "env": [{"name": "A", "valueFrom": {"any": 1}}]}},
        {"runtime": {"image": "a"}, "affinity": {"any": [None]}},
    ],
)
def test_lint_accepts_what_the_api_server_accepts(api: Api, spec: dict[str, Any]) -> None:
    of = api.of("InferenceModel")
    of.create(body=manifest(spec), namespace=api.namespace, dry_run="All")

    assert lint_text("file", yaml.safe_dump(manifest(spec)), SCHEMAS) == []


def test_a_missing_right_to_read_the_token_is_named_with_the_fix(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    tmp_path: Path,
) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"inputs": [TENSOR]}))
    start(api, kubelet, {"http": server.port}, access={"tokenSecretName": "iris-tokens"})
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))

    code, out, err = moorage(api, "infer", "iris", "-f", str(request))
    assert (code, out) == (1, "")
    assert f"Secret {api.namespace}/iris-tokens does not exist: create it" in err

    reader = config_of_reader(api, tmp_path)
    asked = [MOORAGE, "infer", "iris", "-f", request, "-n", api.namespace, "--kubeconfig", reader]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert 'cannot get resource "secrets"' in done.stderr
    assert "iris requires a token: set --token-file, or ask an administrator" in done.stderr


def config_of_reader(api: Api, folder: Path) -> Path:
    """A kubeconfig of an account that may read models and pods, and no Secrets."""

    def kubectl(*words: str) -> str:
        command = [PROGRAMS / "kubectl", "--kubeconfig", api.kubeconfig, "-n", api.namespace]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
        return done.stdout

    kubectl("create", "serviceaccount", "reader")
    what = "--resource=inferencemodels.moorage.dev,pods"
    kubectl("create", "role", "reader", "--verb=get,list", what)
    account = f"--serviceaccount={api.namespace}:reader"
    kubectl("create", "rolebinding", "reader", "--role=reader", account)
    config = yaml.safe_load(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kubectl("create", "token", "reader")}
    path = folder / "reader"
    path.write_text(yaml.safe_dump(config))
    return path
