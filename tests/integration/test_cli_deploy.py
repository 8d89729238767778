"""`moorage deploy` and `delete` against a real API server; a simulated kubelet starts no pods."""

import json
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage_cli.ask.cluster import FIELD_MANAGER
from support.control_plane import kubectl_of
from support.definitions import installed
from support.iris import IMPATIENT, alive, start
from support.manifests import DIGITS
from support.openshift import CONSTRAINTS
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
    settle,
)

pytestmark = pytest.mark.integration

MOORAGE = Path(sys.executable).parent / "moorage"
FILE = str(DIGITS / "model.onnx")
SOON = ("--timeout=1",)


def command(api: Api, *arguments: str) -> list[str]:
    return [str(MOORAGE), *arguments, "--kubeconfig", str(api.kubeconfig), "-n", api.namespace]


def moorage(api: Api, *arguments: str) -> tuple[int, str, str]:
    """The exit status and both outputs of the tool for the test's namespace."""
    done = subprocess.run(
        command(api, *arguments), capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def revision_of(pod: dict[str, Any]) -> str:
    return pod["metadata"]["labels"]["moorage.dev/revision"]


def spec_of(api: Api, name: str = "digits") -> dict[str, Any]:
    return api.get("InferenceModel", name)["spec"]


def pods_of_uploads(api: Api) -> list[dict[str, Any]]:
    return api.list("Pod", "app.kubernetes.io/managed-by=moorage-deploy")


def test_a_deployment_that_is_not_ready_in_time_is_status_1_with_the_reason(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    code, out, err = moorage(api, "deploy", FILE, "--name=digits", "--replicas=2", *SOON)

    assert code == 1
    assert out.startswith("digits: not up to date and ready within 1 seconds\n"), err
    assert "digits: 9.9 KiB are in configmap://digits-model-" in err
    spec = spec_of(api)
    assert spec["replicas"] == 2
    (uploaded,) = api.list("ConfigMap", "moorage.dev/deployed-model=digits")
    assert spec["model"]["uri"] == f"configmap://{uploaded['metadata']['name']}"
    (owner,) = uploaded["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("InferenceModel", "digits")


def test_a_first_deployment_whose_file_does_not_load_ends_before_its_timeout(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    server.ready, server.error = False, "model.onnx is damaged"
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", runtime=runtime, health=IMPATIENT))

    def pod_of_the_deployment() -> dict[str, Any] | None:
        # the deployment is the second generation
        found = api.get("InferenceModel", "iris").get("status", {})
        if found.get("observedGeneration") != 2:
            return None
        current = found["revisions"]["current"]
        pods = kubelet.pods("iris")
        return next((pod for pod in pods if revision_of(pod) == current), None)

    process = subprocess.Popen(
        command(api, "deploy", FILE, "--name=iris", "--timeout=600"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    kubelet.run(eventually("a pod", pod_of_the_deployment, seconds=60), ready=False)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 3, err
    assert "Cause: ModelLoadFailed" in out
    assert "model.onnx is damaged" in out


def test_an_option_that_is_left_out_is_removed_and_fields_of_others_stay(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    moorage(api, "deploy", FILE, "--name=digits", "--replicas=2", "--contract", *SOON)
    api.patch("InferenceModel", "digits", {"spec": {"nodeSelector": {"disk": "ssd"}}})

    moorage(api, "deploy", FILE, "--name=digits", *SOON)

    spec = spec_of(api)
    assert (spec.get("replicas"), spec["nodeSelector"]) == (1, {"disk": "ssd"})
    assert not spec.get("contract", {}).get("inputs")


def test_a_field_that_somebody_else_has_set_needs_force(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    api.apply(model("digits", model={"uri": "configmap://other"}))

    code, _, err = moorage(api, "deploy", FILE, "--name=digits", *SOON)
    assert code == 1
    assert "conflict" in err
    assert ".spec.model.uri" in err
    assert "--force" in err
    assert spec_of(api)["model"]["uri"] == "configmap://other"

    moorage(api, "deploy", FILE, "--name=digits", "--force", *SOON)
    assert spec_of(api)["model"]["uri"].startswith("configmap://digits-model-")


def test_the_secret_of_a_private_uri_is_written_and_removed_when_it_is_left_out(
    operator: OperatorProcess, api: Api
) -> None:
    words = ("deploy", "s3://models/iris", "--name=iris", *SOON)

    moorage(api, *words, "--credentials=models-reader")
    assert spec_of(api, "iris")["model"]["credentials"] == {"secretName": "models-reader"}

    moorage(api, *words)
    assert "credentials" not in spec_of(api, "iris")["model"]


def test_what_a_rollback_restored_is_replaced_without_force_and_scaled_replicas_are_not(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    def deploy(number: int, *options: str) -> tuple[int, str, str]:
        uri = f"https://models.example/{number}.onnx"
        return moorage(api, "deploy", uri, "--name=iris", *options, *SOON)

    deploy(2)
    # as a rollback, which needs a revision that has served
    api.of("InferenceModel").patch(
        name="iris", namespace=api.namespace, field_manager=FIELD_MANAGER,
        body={"spec": {"model": {"uri": "https://models.example/1.onnx"}}},
        content_type="application/merge-patch+json",
    )  # fmt: skip

    deploy(3)
    assert spec_of(api, "iris")["model"]["uri"] == "https://models.example/3.onnx"

    moorage(api, "scale", "iris", "3")
    code, _, err = deploy(3, "--replicas=2")
    assert (code, spec_of(api, "iris")["replicas"]) == (1, 3)
    assert ".spec.replicas" in err


def test_a_dry_run_prints_what_a_deployment_writes_and_writes_nothing(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    code, out, err = moorage(api, "deploy", FILE, "--name=digits", "--dry-run")

    assert (code, err) == (0, "")
    assert api.list("ConfigMap", "moorage.dev/deployed-model=digits") == []
    config_map, resource = yaml.safe_load_all(out)
    moorage(api, "deploy", FILE, "--name=digits", *SOON)
    written = api.get("ConfigMap", config_map["metadata"]["name"])
    assert written["binaryData"] == config_map["binaryData"]
    assert spec_of(api)["model"]["uri"] == resource["spec"]["model"]["uri"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_upload_leaves_no_pod(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, number: signal.Signals
) -> None:
    options = ("--name=digits", "--claim=store", "--image=example/runtime:1")
    process = subprocess.Popen(
        command(api, "deploy", FILE, *options),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    eventually("the upload pod", lambda: pods_of_uploads(api))

    process.send_signal(number)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "claim store is created" in err
    assert "digits: interrupted during the upload: the model is unchanged\n" in err
    assert pods_of_uploads(api) == []


def test_an_interrupt_while_the_model_is_followed_says_that_the_rollout_goes_on(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    process = subprocess.Popen(
        command(api, "deploy", FILE, "--name=digits"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    # the third line is the first one about the rollout
    told = [process.stderr.readline() for _ in range(3)]

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert "the spec is written" in told[1]
    assert (process.returncode, out) == (130, "")
    options = f"--namespace {api.namespace} --kubeconfig {api.kubeconfig}"
    follow = f"to follow it, run moorage rollout digits --watch {options}\n"
    assert err.endswith(f"digits: the rollout continues in the cluster: {follow}")


def test_an_upload_pod_that_cannot_start_is_explained_and_removed(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    options = ("--name=digits", "--claim=store", "--image=example/runtime:1")
    process = subprocess.Popen(
        command(api, "deploy", FILE, *options), stderr=subprocess.PIPE, text=True
    )
    (pod,) = eventually("the upload pod", lambda: pods_of_uploads(api))
    kubelet.wait(pod, "ImagePullBackOff", 'Back-off pulling image "example/runtime:1"')

    _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert 'ImagePullBackOff: Back-off pulling image "example/runtime:1"' in err
    assert pods_of_uploads(api) == []


@pytest.mark.parametrize("on_openshift", [False, True])
def test_only_openshift_chooses_the_group_of_an_upload_pod(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, on_openshift: bool
) -> None:
    cluster = kubectl_of(api.kubeconfig, api.namespace)
    options = ("--name=digits", "--claim=store", "--image=example/runtime:1")
    with installed(cluster, [CONSTRAINTS]) if on_openshift else nullcontext():
        process = subprocess.Popen(
            command(api, "deploy", FILE, *options), stderr=subprocess.DEVNULL, text=True
        )
        (pod,) = eventually("the upload pod", lambda: pods_of_uploads(api))
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)

    assert pod["spec"]["securityContext"].get("fsGroup") == (None if on_openshift else 65532)


def test_without_the_operators_deployment_the_upload_asks_for_an_image(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    code, _, err = moorage(api, "deploy", FILE, "--name=digits", "--claim=store")

    assert code == 1
    assert "the runtime's image is unknown" in err
    assert "set --image" in err
    assert "claim store is created" not in err


def test_a_uri_is_deployed_without_an_upload_and_another_scheme_is_wrong_usage(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    moorage(api, "deploy", "https://models.example/iris.onnx", "--name=iris", *SOON)
    assert spec_of(api, "iris")["model"] == {
        **spec_of(api, "iris")["model"], "uri": "https://models.example/iris.onnx"
    }  # fmt: skip

    code, _, err = moorage(api, "deploy", "ftp://models/iris.onnx", "--name=iris")
    assert code == 2
    assert "scheme ftp:// is not supported: must be one of pvc://" in err
    code, _, err = moorage(api, "deploy", "s3://models/iris.pkl", "--name=iris")
    assert code == 1
    assert "is a pickle" in err


def test_a_deleted_model_is_gone_and_a_missing_one_is_named(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    api.apply(model("iris"))

    code, out, _ = moorage(api, "delete", "iris", "--yes", "-o", "json")

    assert (code, json.loads(out)["deleted"]) == (0, True)
    code, _, err = moorage(api, "delete", "iris", "--yes")
    assert code == 1
    assert "not found" in err


def deploy_and_run(api: Api, kubelet: Kubelet, file: Path) -> str:
    """Deploy a file with `--force`, and run its pod; returns the progress messages."""
    before = {pod["metadata"]["uid"] for pod in kubelet.pods("iris")}
    process = subprocess.Popen(
        command(api, "deploy", str(file), "--name=iris", "--force"),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    (pod,) = eventually(
        "the pod of the new revision",
        lambda: [pod for pod in alive(kubelet) if pod["metadata"]["uid"] not in before],
    )
    kubelet.run(pod)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    return told


def test_content_that_no_revision_needs_is_deleted_with_the_next_deployment(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, tmp_path: Path
) -> None:
    def uploads() -> set[str]:
        found = api.list("ConfigMap", "moorage.dev/deployed-model=iris")
        return {each["metadata"]["name"] for each in found}

    start(api, kubelet, {"http": server.port}, health=IMPATIENT)
    settle(api, "iris")
    file = tmp_path / "model.onnx"
    file.write_bytes(Path(FILE).read_bytes())
    deploy_and_run(api, kubelet, file)
    (first,) = uploads()
    owned = api.get("ConfigMap", first)["metadata"]
    labels, owner = owned["labels"], owned["ownerReferences"]
    for name, owners in (("iris-model-old", owner), ("iris-model-in-progress", [])):
        metadata = {"name": name, "labels": labels, "ownerReferences": owners}
        api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    file.write_bytes(file.read_bytes() + b"\0")
    told = deploy_and_run(api, kubelet, file)

    assert "iris-model-old is deleted" in told
    second = spec_of(api, "iris")["model"]["uri"].removeprefix("configmap://")
    assert uploads() == {first, second, "iris-model-in-progress"}
