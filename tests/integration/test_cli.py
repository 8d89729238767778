"""The command-line tool as a program, against a real API server and the operator."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from moorage_cli.lint import crd, lint_text
from support.cli_manifests import REFUSED, manifest
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
SCHEMAS = {
    f"moorage.dev/{version['name']}": version["schema"]["openAPIV3Schema"]
    for version in crd()["spec"]["versions"]
}


def command(api: Api, name: str, *arguments: str) -> list[str]:
    return [str(MOORAGE), name, *arguments, "--kubeconfig", str(api.kubeconfig)]


def moorage(api: Api, name: str, *arguments: str) -> tuple[int, str, str]:
    """The exit status and both outputs of the tool, asked about the test's namespace."""
    done = subprocess.run(
        [*command(api, name, *arguments), "-n", api.namespace],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def serve(api: Api, kubelet: Kubelet, server: ModelServer, **spec: Any) -> dict[str, Any]:
    """A model `iris` whose one pod runs at the server's address."""
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", runtime=runtime, **spec))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)
    return pod


def test_a_model_that_serves_is_told_in_every_form(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    serve(api, kubelet, server)
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))
    eventually("UpToDate", lambda: api.condition("iris", "UpToDate")[0] == "True")

    code, out, err = moorage(api, "status")
    assert (code, err) == (0, "")
    head, row = [line.split() for line in out.splitlines()]
    told = dict(zip(head, row, strict=True))
    assert told["NAME"] == told["MODEL"] == "iris"
    assert (told["READY"], told["PROGRESS"], told["REPLICAS"]) == ("True", "4/4", "1/1")
    assert (told["PROTOCOL"], told["REASON"]) == ("OpenInference", "Serving")

    code, out, _ = moorage(api, "status", "iris", "-o", "json")
    document = json.loads(out)
    assert code == 0
    assert document["ready"] is document["current"] is True
    assert [item["serves"] for item in document["replicaStatuses"]] == [True]

    code, out, _ = moorage(api, "why", "iris")
    assert code == 0
    assert "Nothing is against it." in out


def test_why_names_the_cause_the_pod_and_what_to_do(
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
    assert "check its name, the registry, imagePullSecrets" in out
    assert pod["metadata"]["name"] in out
    assert "InferenceModel/iris" in out.split("Events")[1]
    assert moorage(api, "status", "iris")[0] == moorage(api, "status")[0] == 1


def events_about(api: Api, name: str) -> list[dict[str, Any]]:
    return [item for item in api.list("Event") if item["regarding"]["name"] == name]


def test_the_watch_shows_the_way_to_ready(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    server.ready = False
    serve(api, kubelet, server)
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
    """Read lines until one has the text; the test's own timeout ends a wait for ever."""
    for line in stream:
        if text in line:
            return
    raise AssertionError(f"the output ended without {text}")


def test_what_is_not_there_is_told_in_the_api_servers_words(api: Api, tmp_path: Path) -> None:
    code, out, err = moorage(api, "status", "rose")
    assert (code, out) == (1, "")
    assert 'inferencemodels.moorage.dev "rose" not found' in err

    assert moorage(api, "status") == (0, "No InferenceModels found.\n", "")
    assert "no context 'elsewhere'" in moorage(api, "why", "rose", "--context", "elsewhere")[2]

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


def test_infer_says_when_no_pod_is_ready_and_the_kubelet_cannot_be_reached(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    tmp_path: Path,
) -> None:
    request = tmp_path / "request.json"
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    request.write_text(json.dumps({"inputs": [tensor]}))
    serve(api, kubelet, server)
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))

    code, out, err = moorage(api, "infer", "iris", "-f", str(request))

    # There is no kubelet in a bare control plane: the API server itself says so.
    assert (code, out) == (1, "")
    assert err.startswith("moorage: pod iris-")
    assert "Traceback" not in err


def test_top_lists_replicas_where_there_is_no_metrics_api(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    pod = serve(api, kubelet, server)
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))

    code, out, err = moorage(api, "top", "-o", "json")

    document = json.loads(out)
    assert (code, err) == (0, "")
    assert [item["pod"] for item in document["replicas"]] == [pod["metadata"]["name"]]
    assert any("metrics.k8s.io" in note for note in document["notes"])


@pytest.mark.parametrize(("spec", "path", "sentence"), REFUSED)
def test_lint_refuses_what_the_api_server_refuses(
    api: Api, spec: dict[str, Any], path: str, sentence: str
) -> None:
    with pytest.raises(ApiException) as refused:
        api.apply(manifest(spec))
    found = lint_text("file", yaml.safe_dump(manifest(spec)), SCHEMAS)

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
def test_lint_takes_what_the_api_server_takes(api: Api, spec: dict[str, Any]) -> None:
    of = api.of("InferenceModel")
    of.create(body=manifest(spec), namespace=api.namespace, dry_run="All")

    assert lint_text("file", yaml.safe_dump(manifest(spec)), SCHEMAS) == []
