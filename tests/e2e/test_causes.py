"""Every invalid input shows its cause in REASON and in a message until it is corrected."""

import pytest

from support.kubectl import KIND, Kubectl
from support.manifests import config_map, digits, digits_files, inference_model
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600), pytest.mark.expects_restarts]


def cause(kubectl: Kubectl, name: str, reason: str, seconds: float = 60) -> str:
    """Wait for the reason in Ready and in the REASON column, and return the message."""
    found = kubectl.wait_condition(name, "Ready", "False", reason, seconds)
    assert kubectl.row(name)["REASON"] == reason
    return found["message"]


def mend(kubectl: Kubectl, *objects) -> None:
    kubectl.apply(*objects)
    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=150)


def bundled_image(kubectl: Kubectl) -> str:
    operator = Kubectl(kubectl.env, "moorage-system")
    container = operator.get("deployment", "moorage")["spec"]["template"]["spec"]["containers"][0]
    env = {item["name"]: item.get("value", "") for item in container.get("env", [])}
    return env["MOORAGE_RUNTIME_IMAGE"]


def test_an_image_that_does_not_exist(kubectl):
    kubectl.apply(digits_files(), digits(runtime={"image": "moorage/absent:none"}))

    assert "moorage/absent:none" in cause(kubectl, "digits", "ImagePullBackOff")
    mend(kubectl, digits())


def test_an_invalid_image_name(kubectl):
    kubectl.apply(digits_files(), digits(runtime={"image": "Not A Name"}))

    assert "Not A Name" in cause(kubectl, "digits", "InvalidImageName")


def test_a_command_that_exits(kubectl):
    script = "import sys; print('the weights are missing', file=sys.stderr); sys.exit(3)"
    kubectl.apply(digits_files(), digits(runtime={"command": ["python3", "-c", script]}))

    message = cause(kubectl, "digits", "CrashLoopBackOff")

    assert "3" in message
    assert "the weights are missing" in message
    failure = kubectl.get(KIND, "digits")["status"]["lastFailure"]
    assert failure["exitCode"] == 3
    mend(kubectl, digits())
    assert kubectl.get(KIND, "digits")["status"]["lastFailure"]["resolvedTime"]


def test_a_config_map_that_is_missing(kubectl):
    kubectl.apply(digits())

    assert "digits-files" in cause(kubectl, "digits", "VolumeMountFailed")
    # the kubelet tries a failed mount again by itself, after up to two minutes
    mend(kubectl, digits_files())


def test_a_volume_claim_that_is_missing(kubectl):
    kubectl.apply(inference_model("digits", model={"uri": "pvc://weights/digits"}))

    assert "weights" in cause(kubectl, "digits", "VolumeMountFailed")


@pytest.mark.expects_errors("is not a valid ONNX model")
def test_a_model_that_does_not_load(kubectl):
    kubectl.apply(config_map("digits-files", {"model.onnx": b"this is no model"}), digits())

    message = cause(kubectl, "digits", "ModelLoadFailed")

    assert "model.onnx" in message or "protobuf" in message.lower()


def test_a_model_name_that_the_server_does_not_have(kubectl):
    env = [{"name": "MOORAGE_MODEL_NAME", "value": "digits"}]
    spec = digits(runtime={"image": bundled_image(kubectl), "env": env})
    spec["spec"]["model"]["name"] = "numbers"
    kubectl.apply(digits_files(), spec)

    message = cause(kubectl, "digits", "ModelNotFound")

    assert "numbers" in message
    assert "digits" in message


def test_a_version_that_the_server_does_not_have(kubectl):
    spec = digits()
    spec["spec"]["model"]["version"] = "7"
    kubectl.apply(digits_files(), spec)

    assert "7" in cause(kubectl, "digits", "VersionNotServed")


def test_more_than_any_node_has(kubectl):
    resources = {"requests": {"memory": "900Gi"}}
    kubectl.apply(digits_files(), digits(runtime={"resources": resources}))

    assert "memory" in cause(kubectl, "digits", "Unschedulable").lower()


def test_an_invalid_pod_template(kubectl):
    kubectl.apply(digits_files(), digits(podTemplate={"spec": {"nope": 1}}))

    assert "nope" in cause(kubectl, "digits", "InvalidPodTemplate")
    mend(kubectl, digits())


def test_a_quota_that_forbids_the_pods(kubectl):
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": {"pods": "0"}},
        }
    )
    kubectl.apply(digits_files(), digits())

    assert "quota" in cause(kubectl, "digits", "ForbiddenByQuota").lower()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"model": {"uri": "pvc://a/b"}, "replica": 2}, "unknown field"),
        ({"model": {"uri": "ftp://a/b"}}, "ftp"),
        ({"model": {"uri": "pvc://a/b"}, "paths": {"ready": "no slash"}}, "paths.ready"),
        ({"replicas": 1}, "runtime.image"),
    ],
    ids=["unknown field", "unknown scheme", "impossible probe path", "neither uri nor image"],
)
def test_the_api_server_rejects_with_a_message(kubectl, spec, sentence):
    assert sentence in kubectl.refusal(inference_model("bad", **spec))


def python(script: str) -> list[str]:
    return ["python3", "-c", script]


def test_a_secret_that_is_missing(kubectl):
    key = {"secretKeyRef": {"name": "token", "key": "value"}}
    runtime = {"env": [{"name": "TOKEN", "valueFrom": key}]}
    kubectl.apply(digits_files(), digits(runtime=runtime))

    assert "token" in cause(kubectl, "digits", "SecretNotFound")

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}
    mend(kubectl, {**secret, "stringData": {"value": "abc"}})


def test_a_command_that_does_not_exist(kubectl):
    kubectl.apply(digits_files(), digits(runtime={"command": ["/no/such/program"]}))

    assert "/no/such/program" in cause(kubectl, "digits", "CreateContainerConfigError")


def test_more_memory_than_the_limit(kubectl):
    hungry = python("import time; held = bytearray(2**30); time.sleep(600)")
    limits = {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    kubectl.apply(digits_files(), digits(runtime={"command": hungry, "resources": limits}))

    assert "memory limit" in cause(kubectl, "digits", "OOMKilled")
    failure = kubectl.get(KIND, "digits")["status"]["lastFailure"]
    assert (failure["reason"], failure["exitCode"]) == ("OOMKilled", 137)

    mend(kubectl, digits())
    assert kubectl.get(KIND, "digits")["status"]["lastFailure"]["resolvedTime"]


ENDS_ON_TERM = """
import http.server, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
"""


def test_a_model_that_exceeds_its_startup_timeout(kubectl):
    health = {"periodSeconds": 1, "startupTimeoutSeconds": 5}
    runtime = {"command": python(f"{ENDS_ON_TERM}time.sleep(600)")}
    kubectl.apply(digits_files(), digits(runtime=runtime, health=health))

    assert "startupTimeoutSeconds (5)" in cause(kubectl, "digits", "StartupTimeout")


STOPS_TO_LIVE = """
began = time.monotonic()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        lives = time.monotonic() - began < 15
        self.send_response(200 if lives else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""


def test_a_server_that_stops_being_live(kubectl):
    health = {"periodSeconds": 1, "failureThreshold": 1, "startupTimeoutSeconds": 60}
    runtime = {"command": python(ENDS_ON_TERM + STOPS_TO_LIVE)}
    kubectl.apply(digits_files(), digits(runtime=runtime, health=health))

    failure = eventually(
        "the liveness probe ends it",
        lambda: kubectl.get(KIND, "digits").get("status", {}).get("lastFailure", {}),
        lambda found: found.get("reason") == "LivenessFailing",
        90,
    )
    assert failure["exitCode"] == 143
