"""The life of a model on real pods: apply, infer, scale, edit, repair, restart, delete."""

import json
import re
import subprocess
import urllib.request

import pytest

from support.inference import in_url, infer
from support.kubectl import KIND, Kubectl
from support.manifests import digits, digits_files
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

OPERATOR_NAMESPACE = "moorage-system"


@pytest.fixture
def served(kubectl: Kubectl) -> Kubectl:
    """A namespace in which the digits model is Ready."""
    kubectl.apply(digits_files(), digits())
    kubectl.wait_condition("digits", "Ready", "True", "Serving")
    return kubectl


def test_wait_for_ready_right_after_apply_never_returns_early(kubectl):
    kubectl.apply(digits_files(), digits())

    kubectl.run("wait", "--for=condition=Ready", f"{KIND}/digits", "--timeout=120s")

    assert infer(kubectl, "digits") == 3


def test_the_status_has_the_models_metadata(served):
    status = served.wait_model("digits", "Ready", "True", "Serving")["status"]

    assert status["replicaSummary"] == "1/1", status
    assert status["model"]["name"] == "digits"
    assert status["model"]["platform"] == "onnx_onnxv1"
    assert [item["name"] for item in status["model"]["inputs"]] == ["image"]
    assert status["server"]["name"]
    assert any("/v2/models/digits/infer" in item["url"] for item in status["endpoints"])
    types = {item["type"] for item in status["conditions"]}
    assert {"Accepted", "WorkloadAvailable", "ModelReady", "Ready", "UpToDate"} <= types
    assert {item["observedGeneration"] for item in status["conditions"]} == {1}


def test_the_operator_does_not_write_to_the_users_object(served):
    metadata = served.get(KIND, "digits")["metadata"]

    assert "finalizers" not in metadata
    assert set(metadata.get("annotations", {})) <= {
        "kubectl.kubernetes.io/last-applied-configuration"
    }


def test_a_model_serves_over_grpc_with_grpc_probes(kubectl):
    kubectl.apply(digits_files(), digits(transport="GRPC"))

    kubectl.wait_condition("digits", "Ready", "True", "Serving")

    container = kubectl.items("pods", "moorage.dev/model=digits")[0]["spec"]["containers"][0]
    assert container["readinessProbe"]["grpc"]["service"] == "model:digits"
    assert kubectl.get(KIND, "digits")["status"]["model"]["platform"] == "onnx_onnxv1"


def test_scaling_by_the_scale_subresource_changes_replicas_and_summary(served):
    served.run("scale", f"{KIND}/digits", "--replicas=2")
    served.wait_condition("digits", "UpToDate", "True", seconds=120)

    assert served.row("digits")["REPLICAS"] == "2/2"
    assert infer(served, "digits", 7) == 7

    served.run("scale", f"{KIND}/digits", "--replicas=0")
    served.wait_condition("digits", "WorkloadAvailable", "False", "ScaledToZero")


def test_an_edit_rolls_out_and_is_up_to_date_only_when_it_serves(served):
    before = {pod["metadata"]["uid"] for pod in served.items("pods", "moorage.dev/model=digits")}

    served.apply(digits(runtime={"env": [{"name": "EDITED", "value": "1"}]}))
    served.wait_condition("digits", "UpToDate", "True", seconds=120)

    def serving_pods() -> set[str]:
        pods = served.items("pods", "moorage.dev/model=digits")
        return {
            pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
        }

    after = eventually("only new pods", serving_pods, lambda pods: not pods & before, 90)
    assert len(after) == 1
    assert infer(served, "digits") == 3


def test_a_manually_edited_child_is_repaired(served):
    served.run(
        "patch",
        "deployment",
        "digits",
        "--type=json",
        "-p",
        json.dumps(
            [
                {
                    "op": "replace",
                    "path": "/spec/template/spec/containers/0/env/0/value",
                    "value": "no",
                },
            ]
        ),
    )

    eventually(
        "the Deployment is as planned again",
        lambda: served.get("deployment", "digits")["spec"]["template"]["spec"]["containers"][0],
        lambda container: all(item.get("value") != "no" for item in container["env"]),
        30,
    )
    served.wait_condition("digits", "Ready", "True", "Serving", seconds=90)


def test_a_deleted_child_is_recreated(served):
    uid = served.get("service", "digits")["metadata"]["uid"]

    served.run("delete", "service", "digits")

    eventually(
        "a new Service",
        lambda: served.get("service", "digits"),
        lambda service: service.get("metadata", {}).get("uid", uid) != uid,
        30,
    )


def test_a_model_deleted_and_created_again_becomes_ready(served):
    served.run("delete", KIND, "digits")
    served.apply(digits())

    served.wait_condition("digits", "Ready", "True", "Serving", seconds=120)
    assert infer(served, "digits", 3) == 3


def operator_metrics(kubectl: Kubectl, name: str) -> float:
    """The sum of the series of a metric of the operator."""
    pods = Kubectl(kubectl.env, OPERATOR_NAMESPACE).items("pods", "app.kubernetes.io/name=moorage")
    running = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    address = running[0]["status"]["podIP"]
    with urllib.request.urlopen(f"http://{in_url(address)}:8080/metrics", timeout=5) as answer:
        text = answer.read().decode()
    values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values))


def test_an_idle_operator_keeps_polling_and_writes_nothing(served):
    served.apply(digits(health={"periodSeconds": 1, "pollIntervalSeconds": 5}))
    served.wait_condition("digits", "UpToDate", "True")

    def versions() -> list[str]:
        objects = [
            served.get(KIND, "digits"),
            served.get("deployment", "digits"),
            served.get("service", "digits"),
        ]
        return [item["metadata"]["resourceVersion"] for item in objects]

    before = versions()
    polls = operator_metrics(served, "moorage_polls_total")
    eventually(
        "the operator asked the model again",
        lambda: operator_metrics(served, "moorage_polls_total"),
        lambda now: now >= polls + 3,
        60,
    )

    assert versions() == before


def test_a_restarted_operator_writes_nothing_and_keeps_watching(served):
    def versions() -> list[str]:
        objects = [
            served.get(KIND, "digits"),
            served.get("deployment", "digits"),
            served.get("service", "digits"),
        ]
        return [item["metadata"]["resourceVersion"] for item in objects]

    eventually("all is settled", versions, lambda seen: seen == versions(), 30)
    before = versions()
    operator = Kubectl(served.env, OPERATOR_NAMESPACE)
    operator.run("rollout", "restart", "deployment", "moorage")
    operator.run("rollout", "status", "deployment", "moorage", "--timeout=120s")
    eventually(
        "the new operator asked the model",
        lambda: operator_metrics(served, "moorage_polls_total"),
        lambda polls: polls >= 1,
        60,
    )

    assert versions() == before
    served.run("scale", f"{KIND}/digits", "--replicas=2")
    served.wait_condition("digits", "UpToDate", "True", seconds=90)


def test_the_pods_need_no_token_and_keep_to_the_restricted_profile(served):
    pod = served.items("pods", "moorage.dev/model=digits")[0]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True


def test_cluster_dns_resolves_the_service_from_another_pod(served):
    script = (
        "import urllib.request as u;"
        "print(u.urlopen('http://digits:8000/v2/models/digits/ready', timeout=5).read().decode())"
    )
    image = served.items("pods", "moorage.dev/model=digits")[0]["spec"]["containers"][0]["image"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "asker"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "asker",
                    "image": image,
                    "command": ["python3", "-c", script],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
    served.apply(pod)

    eventually(
        "the asker ended",
        lambda: served.get("pod", "asker")["status"].get("phase"),
        lambda phase: phase in {"Succeeded", "Failed"},
        60,
    )
    assert (
        '"ready"'
        in subprocess.run(
            ["kubectl", "-n", served.namespace, "logs", "asker"],
            env=dict(served.env),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
