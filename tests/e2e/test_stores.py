"""Models that pods fetch: an S3 gateway and a web server on the host, at the pods' own bridge."""

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from moorage_localcluster.layout import BRIDGE_ADDRESS
from support.file_server import FileServer, Route, file_server
from support.inference import infer
from support.kubectl import KIND
from support.manifests import DIGITS, inference_model, secret
from support.s3_server import S3Server, s3_server
from support.self_signed import self_signed, trusting
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MODEL = (DIGITS / "model.onnx").read_bytes()
SHA256 = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture(scope="module")
def s3(demo, tmp_path_factory) -> Iterator[S3Server]:
    """A gateway that has the digits model; the bridge is there once the cluster is."""
    with s3_server(tmp_path_factory.mktemp("s3"), BRIDGE_ADDRESS) as server:
        server.put("models/digits/1/model.onnx", MODEL)
        yield server


@pytest.fixture
def web(kubectl, tmp_path) -> Iterator[FileServer]:
    """A web server with a certificate that the Secret `store` trusts, and nobody else."""
    certificate = self_signed(tmp_path, BRIDGE_ADDRESS)
    kubectl.apply(secret("store", trusting(certificate)))
    with file_server(certificate, BRIDGE_ADDRESS) as server:
        yield server


def fetched(uri: str) -> dict[str, Any]:
    """The digits model from a store, to which the Secret `store` is the key."""
    model = {"name": "digits", "uri": uri, "credentials": {"secretName": "store"}}
    return inference_model("digits", model=model, health={"periodSeconds": 1})


def test_a_model_in_a_bucket_becomes_ready_and_answers(kubectl, s3):
    kubectl.apply(secret("store", s3.secret), fetched("s3://models/digits"))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3
    log = kubectl.run("logs", "deployment/digits", "--container", "fetch")
    assert "s3://models/digits" in log
    assert s3.key not in log


def test_a_wrong_key_is_told_and_the_mended_secret_is_taken_up_by_the_same_pod(kubectl, s3):
    wrong = {**s3.secret, "AWS_SECRET_ACCESS_KEY": "wrong"}
    kubectl.apply(secret("store", wrong), fetched("s3://models/digits"))

    failed = kubectl.wait_condition("digits", "Ready", "False", "ArtifactDownloadFailed")
    assert "refuses the signature" in failed["message"]
    assert "AWS_SECRET_ACCESS_KEY" in failed["message"]
    (pod,) = kubectl.items("pods", "moorage.dev/model=digits")

    # the kubelet reads the Secret whenever it starts the container again: after 10 s, 20 s, 40 s
    kubectl.apply(secret("store", s3.secret))
    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=180)

    (same,) = kubectl.items("pods", "moorage.dev/model=digits")
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    assert same["status"]["initContainerStatuses"][0]["restartCount"] > 0


def test_a_wrong_checksum_is_told_with_both_and_the_right_one_is_served(kubectl, web):
    web.routes["/model.onnx"] = Route(MODEL)
    wanted = "0" * 64
    kubectl.apply(fetched(f"{web.url}/model.onnx#sha256={wanted}"))

    failed = kubectl.wait_condition("digits", "Ready", "False", "ArtifactDownloadFailed")
    assert f"expected sha256:{wanted}" in failed["message"]
    assert f"sha256:{SHA256}" in failed["message"]

    kubectl.apply(fetched(f"{web.url}/model.onnx#sha256={SHA256}"))
    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)


def test_a_download_that_takes_its_time_is_said_to_be_one(kubectl, web):
    # the server has trouble in passing, until the test lets it answer
    route = web.routes["/model.onnx"] = Route(MODEL, failures=[503] * 1000)
    kubectl.apply(fetched(f"{web.url}/model.onnx"))

    waits = eventually(
        "the download is the reason",
        lambda: kubectl.condition("digits", "Ready"),
        lambda ready: "is downloading the model" in ready.get("message", ""),
        60,
    )
    assert (waits["status"], waits["reason"]) == ("False", "Pending")
    route.failures.clear()

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)
    assert kubectl.get(KIND, "digits")["status"]["model"]["platform"] == "onnx_onnxv1"
