"""Models that pods download from stores on the host, at the bridge of the pods."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage_localcluster.layout import BRIDGE_ADDRESS
from support.azure_server import AzureServer, azure_server
from support.file_server import FileServer, Route, file_server
from support.gcs_server import GcsServer, gcs_server
from support.inference import infer
from support.kubectl import KIND
from support.manifests import DIGITS, inference_model, secret
from support.registry import Repository, oci_registry
from support.s3_server import S3Server, s3_server
from support.self_signed import self_signed, trusting
from support.sts_server import sts_server
from support.tls_front import tls_front
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MOORAGE = Path(sys.executable).parent / "moorage"
MODEL = (DIGITS / "model.onnx").read_bytes()
SHA256 = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture(scope="module")
def s3(demo, tmp_path_factory) -> Iterator[S3Server]:
    """A gateway with the digits model, on the bridge of the cluster."""
    with s3_server(tmp_path_factory.mktemp("s3"), BRIDGE_ADDRESS) as server:
        server.put("models/digits/1/model.onnx", MODEL)
        yield server


@pytest.fixture
def web(kubectl, tmp_path) -> Iterator[FileServer]:
    """A web server with a certificate that only the Secret `store` trusts."""
    certificate = self_signed(tmp_path, BRIDGE_ADDRESS)
    kubectl.apply(secret("store", trusting(certificate)))
    with file_server(certificate, BRIDGE_ADDRESS) as server:
        yield server


@pytest.fixture(scope="module")
def gcs(demo, tmp_path_factory) -> Iterator[GcsServer]:
    """An emulator of Google Cloud Storage with the digits model."""
    with gcs_server(tmp_path_factory.mktemp("gcs"), BRIDGE_ADDRESS) as server:
        server.put("digits/1/model.onnx", MODEL)
        yield server


@pytest.fixture(scope="module")
def azure(demo, tmp_path_factory) -> Iterator[AzureServer]:
    """An emulator of Azure Blob Storage with the digits model."""
    with azure_server(tmp_path_factory.mktemp("azure"), BRIDGE_ADDRESS) as server:
        server.put("models/digits/1/model.onnx", MODEL)
        yield server


@pytest.fixture
def images(kubectl, tmp_path) -> Iterator[str]:
    """The address of a registry with the digits model as an artifact, `models/digits:1`."""
    certificate = self_signed(tmp_path, BRIDGE_ADDRESS)
    kubectl.apply(secret("store", trusting(certificate)))
    with (
        oci_registry(tmp_path) as server,
        tls_front(certificate, BRIDGE_ADDRESS, server.port) as port,
    ):
        repository = Repository(server, "models/digits")
        title = {"org.opencontainers.image.title": "1/model.onnx"}
        repository.image("1", repository.blob(MODEL, "application/octet-stream", **title))
        yield f"{BRIDGE_ADDRESS}:{port}"


def add_repository(hub: FileServer, name: str, token: str) -> None:
    """A private repository of the Hub with the digits model."""
    commit = "5" * 40
    lfs = {"oid": SHA256, "size": len(MODEL), "pointerSize": 130}
    file = {"type": "file", "path": "1/model.onnx", "oid": "1" * 40, "lfs": lfs}
    for path, document in (("revision/main", {"sha": commit}), (f"tree/{commit}", [file])):
        body = json.dumps(document).encode()
        route = Route(body, authorization=f"Bearer {token}")
        hub.routes[f"/api/models/{name}/{path}"] = route
    resolved = Route(MODEL, authorization=f"Bearer {token}")
    hub.routes[f"/{name}/resolve/{commit}/1/model.onnx"] = resolved


def fetched(uri: str, name: str = "digits", **model: Any) -> dict[str, Any]:
    """A model from a store, with the credentials of the Secret `store`."""
    spec = {"name": "digits", "uri": uri, "credentials": {"secretName": "store"}, **model}
    return inference_model(name, model=spec, health={"periodSeconds": 1})


def google_key(folder: Path, token_uri: str) -> str:
    """The key file of a service account that is only known to that address."""
    key = folder / "google.pem"
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-out", key]
    subprocess.run(command, check=True, capture_output=True)
    account = {"client_email": "models@project.example", "private_key": key.read_text()}
    return json.dumps({"type": "service_account", **account, "token_uri": token_uri})


def test_a_model_in_a_bucket_becomes_ready_and_answers(kubectl, s3):
    kubectl.apply(secret("store", s3.secret), fetched("s3://models/digits"))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3
    log = kubectl.run("logs", "deployment/digits", "--container", "fetch")
    assert "s3://models/digits" in log
    assert s3.key not in log


def deployed(kubectl, to: str, variables: dict[str, str]) -> str:
    """What `moorage deploy` prints about the digits model that it uploads to a store."""
    words = ["deploy", DIGITS / "model.onnx", "--name=digits", f"--to={to}", "--credentials=store"]
    done = subprocess.run(
        [MOORAGE, *words, "-n", kubectl.namespace],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, **kubectl.env, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_file_that_the_tool_uploads_to_a_bucket_is_served_from_there(kubectl, s3):
    kubectl.apply(secret("store", s3.secret))

    shown = deployed(kubectl, "s3://models/deployed", s3.secret)

    uri = kubectl.get(KIND, "digits")["spec"]["model"]["uri"]
    assert uri.startswith("s3://models/deployed/digits/")
    assert f"uploaded and verified: {uri}" in shown
    assert infer(kubectl, "digits") == 3
    assert "uploaded already" in deployed(kubectl, "s3://models/deployed", s3.secret)


def test_a_file_that_the_tool_uploads_to_a_registry_is_served_from_there(
    kubectl, images, tmp_path
):
    shown = deployed(
        kubectl, f"oci://{images}/team", {"SSL_CERT_FILE": str(tmp_path / "both.pem")}
    )

    uri = kubectl.get(KIND, "digits")["spec"]["model"]["uri"]
    assert uri.startswith(f"oci://{images}/team/digits@sha256:")
    assert f"uploaded and verified: {uri}" in shown
    assert infer(kubectl, "digits") == 3


def test_only_the_selected_files_of_a_model_are_downloaded(kubectl, s3):
    s3.put("models/several/1/model.onnx", MODEL)
    s3.put("models/several/model.safetensors", b"another format")
    files = {"include": ["1/*"], "exclude": ["*.safetensors"]}
    kubectl.apply(secret("store", s3.secret), fetched("s3://models/several", files=files))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3
    assert "in 1 files" in kubectl.run("logs", "deployment/digits", "--container", "fetch")


def test_a_wrong_key_is_reported_and_the_same_pod_uses_the_corrected_secret(kubectl, s3):
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


def test_a_wrong_checksum_is_reported_with_both_values(kubectl, web):
    web.routes["/model.onnx"] = Route(MODEL)
    wanted = "0" * 64
    kubectl.apply(fetched(f"{web.url}/model.onnx#sha256={wanted}"))

    failed = kubectl.wait_condition("digits", "Ready", "False", "ArtifactDownloadFailed")
    assert wanted in failed["message"]
    assert SHA256 in failed["message"]

    kubectl.apply(fetched(f"{web.url}/model.onnx#sha256={SHA256}"))
    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)


def test_a_slow_download_is_reported_as_such(kubectl, web):
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


def test_a_model_in_googles_storage_becomes_ready_and_answers(kubectl, gcs):
    kubectl.apply(secret("store", {}), fetched(f"gs://models/digits?endpoint={gcs.url}"))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3


def test_a_model_in_azures_storage_becomes_ready_and_answers(kubectl, azure):
    kubectl.apply(secret("store", azure.secret), fetched("azblob://moorage/models/digits"))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3
    log = kubectl.run("logs", "deployment/digits", "--container", "fetch")
    assert azure.key not in log


def test_a_model_in_a_registry_becomes_ready_and_answers(kubectl, images):
    kubectl.apply(fetched(f"oci://{images}/models/digits:1"))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3


def test_a_private_model_of_a_hub_becomes_ready_and_answers(kubectl, web):
    add_repository(web, "org/digits", token="right")
    access = {"HF_TOKEN": "right", "HF_ENDPOINT": web.url}
    trust = kubectl.get("secret", "store")["data"]["ca.crt"]
    kubectl.apply(secret("store", {**access, "ca.crt": base64.b64decode(trust).decode()}))
    kubectl.apply(fetched("hf://org/digits"))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert infer(kubectl, "digits") == 3
    assert "right" not in kubectl.run("logs", "deployment/digits", "--container", "fetch")


def test_each_refusal_of_a_store_is_reported(kubectl, s3, gcs, web, tmp_path):
    add_repository(web, "org/digits", token="right")
    web.routes["/v2/models/digits/manifests/1"] = Route(b"{}", authorization="Basic right")
    host = web.url.removeprefix("https://")
    trust = base64.b64decode(kubectl.get("secret", "store")["data"]["ca.crt"]).decode()
    key = google_key(tmp_path, f"{web.url.replace('https', 'http')}/token")
    wrong = {
        "HF_TOKEN": "wrong",
        "username": "somebody",
        "password": "wrong",
        "GOOGLE_APPLICATION_CREDENTIALS_JSON": key,
    }
    kubectl.apply(secret("wrong", {**wrong, "ca.crt": trust}), secret("s3", s3.secret))
    gs, hub = f"?endpoint={gcs.url}", f"?endpoint={web.url}"
    by_wrong: dict[str, Any] = {"credentials": {"secretName": "wrong"}}
    by_s3: dict[str, Any] = {"credentials": {"secretName": "s3"}}
    refused = {
        "gs-absent": (fetched(f"gs://models/absent{gs}", "gs-absent"), "contains no files"),
        "gs-wrong": (
            fetched(f"gs://models/digits{gs}", "gs-wrong", **by_wrong),
            "GOOGLE_APPLICATION_CREDENTIALS_JSON",
        ),
        "oci-absent": (fetched(f"oci://{host}/models/absent:1", "oci-absent"), "does not exist"),
        "oci-wrong": (fetched(f"oci://{host}/models/digits:1", "oci-wrong", **by_wrong), "denied"),
        "hf-absent": (fetched(f"hf://org/absent{hub}", "hf-absent"), "does not exist"),
        "hf-wrong": (
            fetched(f"hf://org/digits{hub}", "hf-wrong", **by_wrong),
            "HF_TOKEN",
        ),
        "s3-absent": (fetched("s3://models/absent", "s3-absent", **by_s3), "contains no objects"),
        "s3-large": (
            fetched("s3://models/digits", "s3-large", **by_s3, download={"sizeLimit": "1k"}),
            "raise model.download.sizeLimit",
        ),
    }
    kubectl.apply(*(model for model, _ in refused.values()))

    for name, (_, sentence) in refused.items():
        ready = kubectl.wait_condition(
            name, "Ready", "False", "ArtifactDownloadFailed", seconds=150
        )
        assert sentence in ready["message"], name
        assert "wrong" not in ready["message"].replace("org/", ""), name


def test_a_missing_secret_is_reported_and_used_once_it_exists(kubectl, s3):
    kubectl.apply(fetched("s3://models/digits"))

    missing = kubectl.wait_condition("digits", "Ready", "False", "SecretNotFound")
    assert '"store"' in missing["message"]
    kubectl.apply(secret("store", s3.secret))

    kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=180)


def test_a_service_account_token_is_exchanged_for_keys(kubectl, s3):
    def is_the_pods(token: str) -> bool:
        claims = token.split(".")[1]
        decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        account = f"system:serviceaccount:{kubectl.namespace}:default"
        return decoded["sub"] == account and decoded["aud"] == ["sts.amazonaws.com"]

    role = "arn:aws:iam::1:role/models"
    with sts_server(s3.access, s3.key, is_the_pods, BRIDGE_ADDRESS) as sts:
        folder = "/var/run/secrets/sts"
        variables = {
            "AWS_ROLE_ARN": role,
            "AWS_WEB_IDENTITY_TOKEN_FILE": f"{folder}/token",
            "AWS_ENDPOINT_URL_STS": sts.url,
            "AWS_ENDPOINT_URL_S3": s3.url,
            "AWS_REGION": "us-east-1",
        }
        audience = {"path": "token", "audience": "sts.amazonaws.com"}
        container = {
            "name": "fetch",
            "env": [{"name": name, "value": value} for name, value in variables.items()],
            "volumeMounts": [{"name": "sts", "mountPath": folder, "readOnly": True}],
        }
        volume = {"name": "sts", "projected": {"sources": [{"serviceAccountToken": audience}]}}
        pod = {"initContainers": [container], "volumes": [volume]}
        model = {"name": "digits", "uri": "s3://models/digits"}
        kubectl.apply(inference_model("digits", model=model, podTemplate={"spec": pod}))

        kubectl.wait_condition("digits", "Ready", "True", "Serving", seconds=120)

    assert set(sts.roles) == {role}
